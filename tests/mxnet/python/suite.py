"""Runs MXNet's own unit tests on Kaon and compares them with what is expected to pass.

    suite.py LIBRARY TESTS [--record] [test_file.py ...]

TESTS is the folder tests/python/unittest of MXNet 1.9.1's sources. expected.txt, beside this program, names the tests
that pass; one of them that does not is a regression. With --record the file is written anew.
"""
import collections
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
EXPECTED = os.path.join(HERE, 'expected.txt')


def run_file(name, library, tests, folder):
    """Outcomes by test. A crash ends its test, and those behind it are run in another process."""
    outcomes = {}
    for _ in range(40):
        log = os.path.join(folder, name + '.log')
        if os.path.exists(log):
            os.remove(log)
        environment = dict(os.environ, KAON_MXNET_LIBRARY=library, KAON_SUITE_LOG=log, MXNET_MODULE_SEED='1',
                           PYTHONDONTWRITEBYTECODE='1',
                           PYTHONPATH=os.pathsep.join([HERE, os.path.join(HERE, '../../../mxnet/python')]))
        command = [sys.executable, '-m', 'kaon_mxnet', '-m', 'pytest', '-q', '-p', 'suite_plugin', '-p',
                   'no:cacheprovider', '-W', 'ignore', '--tb=no', name]
        for test in outcomes:
            command += ['--deselect', test]
        code = subprocess.run(command, cwd=tests, env=environment, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, timeout=3000).returncode
        running = None
        for line in open(log) if os.path.exists(log) else ():
            outcome, test = line.rstrip('\n').split(' ', 1)
            running = test if outcome == 'started' else None
            if outcome != 'started':
                outcomes[test] = outcome
        if running is None or code in (0, 1, 5):
            return outcomes
        outcomes[running] = 'crashed'
    return outcomes


def main():
    arguments = [a for a in sys.argv[1:] if a != '--record']
    library, tests = os.path.abspath(arguments[0]), os.path.abspath(arguments[1])
    names = arguments[2:] or sorted(n for n in os.listdir(tests) if n.startswith('test_') and n.endswith('.py'))
    outcomes = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            found = run_file(name, library, tests, folder)
            outcomes.update(found)
            print('%-36s %s' % (name, dict(collections.Counter(found.values()))))
            sys.stdout.flush()
    passed = sorted(test for test, outcome in outcomes.items() if outcome == 'passed')
    if '--record' in sys.argv:
        with open(EXPECTED, 'w') as file:
            file.write('\n'.join(passed) + '\n')
        return 0
    with open(EXPECTED) as file:
        expected = [t for t in file.read().split('\n') if t and t.split('::')[0] in names]
    worse = [t for t in expected if outcomes.get(t) != 'passed']
    better = sorted(set(passed) - set(expected))
    print('%d tests passed, %d were expected to' % (len(passed), len(expected)))
    for test in worse:
        print('regression: %s %s' % (test, outcomes.get(test, 'was not run')))
    for test in better:
        print('passes now: %s' % test)
    return 1 if worse or [t for t, outcome in outcomes.items() if outcome == 'crashed'] else 0


sys.exit(main())
