"""Runs MXNet's own unit tests on Kaon and compares them with what is expected to pass.

    suite.py LIBRARY TESTS [--record] [--page] [--why FILE] [test_file.py ...]

TESTS is the folder tests/python/unittest of MXNet 1.9.1's sources. LIBRARY is Kaon's, or `mxnet`: the wheel's own.
Beside this program stand three lists. mxnet.txt: the subject of each test that MXNet's library passes, as suite_plugin
finds it. expected.txt: the tests that pass on Kaon; one of them that does not is a regression. reasons.txt: why the
others of MXNet's do not. With --record the list of the library is written anew, for the named files. With --page the
table in docs/mxnet.md is written from the lists. --why: a file for what failing tests say.
"""
import collections
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, '../../..')
LISTS = {name: os.path.join(HERE, name + '.txt') for name in ('mxnet', 'expected', 'reasons')}
PAGE = os.path.join(ROOT, 'docs/mxnet.md')
BEGIN, END = '<!-- suite.py --page writes what follows -->\n', '<!-- to here -->\n'


def lines_of(name):
    if not os.path.exists(LISTS[name]):
        return []
    with open(LISTS[name]) as file:
        return [line for line in file.read().split('\n') if line]


def file_of(test):
    return test.split('::')[0]


def run_file(name, library, tests, folder, why):
    """(outcome, subject) by test. A crash ends its test, and those behind it are run in another process."""
    outcomes = {}
    log = os.path.join(folder, name + '.log')
    for _ in range(40):
        if os.path.exists(log):
            os.remove(log)
        environment = dict(os.environ, KAON_SUITE_LOG=log, MXNET_MODULE_SEED='1', PYTHONDONTWRITEBYTECODE='1',
                           MXNET_SUBGRAPH_BACKEND='NONE',
                           PYTHONPATH=os.pathsep.join([HERE, os.path.join(ROOT, 'mxnet/python')]))
        environment.pop('MXNET_LIBRARY_PATH', None)
        environment.update({'KAON_MXNET_ACTIVATE': '0'} if library == 'mxnet' else {'KAON_MXNET_LIBRARY': library})
        command = [sys.executable, '-m', *(['kaon_mxnet', '-m'] if library != 'mxnet' else []), 'pytest', '-q', '-p',
                   'suite_plugin', '-p', 'no:cacheprovider', '-W', 'ignore', name]
        for test in outcomes:
            command += ['--deselect', test]
        code = subprocess.run(command, cwd=tests, env=environment, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, timeout=7200).returncode
        running = None
        for line in open(log) if os.path.exists(log) else ():
            outcome, subject, _, test = line.rstrip('\n').split(' ', 3)
            running = test if outcome == 'started' else None
            if outcome != 'started':
                outcomes[test] = outcome, subject
        if running is None or code in (0, 1, 5):
            break
        outcomes[running] = 'crashed', 'core'
    if why and os.path.exists(log + '.why'):
        with open(log + '.why') as source, open(why, 'a') as target:
            target.write(source.read())
    return outcomes


def record(name, new, names):
    """Gives the list other lines for the files `names`; a line ends with its test."""
    kept = [line for line in lines_of(name) if file_of(line.split(' ')[-1]) not in names]
    with open(LISTS[name], 'w') as file:
        file.write('\n'.join(sorted(kept + new, key=lambda line: line.split(' ')[-1])) + '\n')


def page():
    """The table of files and the list of tests that do not pass, in Markdown."""
    subjects = dict(reversed(line.split(' ', 1)) for line in lines_of('mxnet'))
    passed, reasons = set(lines_of('expected')), dict(line.split(' ', 1) for line in lines_of('reasons'))
    total, done = collections.Counter(), collections.Counter()
    for test, subject in subjects.items():
        for key in file_of(test), subject, 'all':
            total[key] += 1
            done[key] += test in passed
    text = 'Core tests use neither `mx.np` nor sparse arrays, backends that partition graphs, or the profiler.\n\n'
    text += '| subject | pass with MXNet | of these on Kaon | |\n|---|---|---|---|\n'
    for subject in 'core', 'sparse', 'np', 'subgraph', 'profiler', 'all':
        if total[subject]:
            text += '| %s | %d | %d | %.1f %% |\n' % (subject, total[subject], done[subject],
                                                     100 * done[subject] / total[subject])
    text += '\n| file | pass with MXNet | of these on Kaon |\n|---|---|---|\n'
    for name in sorted({file_of(test) for test in subjects}):
        text += '| `%s` | %d | %d |\n' % (name[:-len('.py')], total[name], done[name])
    failing = sorted(set(subjects) - passed)
    text += '\nThe ones that do not pass:\n\n| test | subject | why |\n|---|---|---|\n'
    for test in failing:
        text += '| `%s` | %s | %s |\n' % (test.replace('.py::', '::'), subjects[test], reasons.get(test, 'not known'))
    for test in sorted(set(reasons) - set(failing)):
        print('has a reason but does not need one: ' + test)
    with open(PAGE) as file:
        before, rest = file.read().split(BEGIN)
    with open(PAGE, 'w') as file:
        file.write(before + BEGIN + text + END + rest.split(END)[1])


def main():
    arguments, options, why = [], set(), None
    rest = iter(sys.argv[1:])
    for argument in rest:
        if argument == '--why':
            why = os.path.abspath(next(rest))
        elif argument.startswith('--'):
            options.add(argument)
        else:
            arguments.append(argument)
    if options - {'--record', '--page'} or (len(arguments) < 2 and options != {'--page'}):
        print(__doc__)
        return 2
    if not arguments:
        page()
        return 0
    library = arguments[0] if arguments[0] == 'mxnet' else os.path.abspath(arguments[0])
    tests = os.path.abspath(arguments[1])
    names = arguments[2:] or sorted(n for n in os.listdir(tests) if n.startswith('test_') and n.endswith('.py'))
    outcomes = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            found = run_file(name, library, tests, folder, why)
            outcomes.update(found)
            print('%-36s %s' % (name, dict(collections.Counter(outcome for outcome, _ in found.values()))))
            sys.stdout.flush()
    passed = sorted(test for test, (outcome, _) in outcomes.items() if outcome == 'passed')
    if library == 'mxnet':
        if '--record' in options:
            record('mxnet', ['%s %s' % (outcomes[test][1], test) for test in passed], names)
        return 0
    expected = [test for test in lines_of('expected') if file_of(test) in names]
    if '--record' in options:
        record('expected', passed, names)
    if '--page' in options:
        page()
    worse = [test for test in expected if outcomes.get(test, ('was not run', ''))[0] != 'passed']
    print('%d tests passed, %d were expected to' % (len(passed), len(expected)))
    for test in worse:
        print('regression: %s %s' % (test, outcomes.get(test, ('was not run', ''))[0]))
    for test in sorted(set(passed) - set(expected)):
        print('passes now: %s' % test)
    return 1 if worse or [test for test, (outcome, _) in outcomes.items() if outcome == 'crashed'] else 0


if __name__ == '__main__':
    sys.exit(main())
