"""pytest plugin: a line "outcome test" for each test, in the file KAON_SUITE_LOG, written when the test ends."""
import os
import signal

import pytest

_LOG = os.environ['KAON_SUITE_LOG']
_LIMIT = int(os.environ.get('KAON_SUITE_LIMIT', '120'))
_outcome = {}


def _write(text):
    with open(_LOG, 'a') as log:
        log.write(text + '\n')


def _too_long(*_):
    raise TimeoutError('over %d s' % _LIMIT)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    _write('started ' + item.nodeid)
    _outcome[item.nodeid] = 'passed'
    signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(_LIMIT)
    yield
    signal.alarm(0)
    _write('%s %s' % (_outcome[item.nodeid], item.nodeid))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    report = (yield).get_result()
    if report.failed:
        _outcome[item.nodeid] = 'failed'
    elif report.skipped and _outcome[item.nodeid] == 'passed':
        _outcome[item.nodeid] = 'skipped'
