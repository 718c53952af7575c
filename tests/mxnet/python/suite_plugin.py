"""pytest plugin: a line "outcome subject seconds test" for each test, in the file KAON_SUITE_LOG, written when it ends.

The subject is what MXNet has beside its core and the test has used: np (mx.np, or shapes as NumPy has them), sparse,
subgraph (backends that partition graphs), profiler; core: none of these. KAON_SUITE_LIMIT: seconds that a test may take.
"""
import functools
import os
import signal
import time

import pytest

_LOG = os.environ['KAON_SUITE_LOG']
_LIMIT = int(os.environ.get('KAON_SUITE_LIMIT', '120'))
_SUBJECTS = 'subgraph', 'profiler', 'np', 'sparse'
_outcome, _used = {}, set()


class TooLong(BaseException):
    """Not an Exception: tests expect such."""


def _write(text):
    with open(_LOG, 'a') as log:
        log.write(text + '\n')


def _too_long(*_):
    raise TooLong('over %d s' % _LIMIT)


def _notes(subject, call, when=lambda *_, **__: True):
    @functools.wraps(call)
    def noting(*arguments, **keywords):
        if when(*arguments, **keywords):
            _used.add(subject)
        return call(*arguments, **keywords)
    return noting


def pytest_sessionstart(session):  # pylint: disable=unused-argument
    import mxnet as mx
    library = mx.base._LIB
    sparse = mx.nd.sparse.BaseSparseNDArray
    sparse.__init__ = _notes('sparse', sparse.__init__)
    mx.np.ndarray.__init__ = _notes('np', mx.np.ndarray.__init__)
    library.MXSetIsNumpyShape = _notes('np', library.MXSetIsNumpyShape, lambda on, _: getattr(on, 'value', on) != 0)
    for name in 'MXBuildSubgraphByOpNames', 'MXOptimizeForBackend', 'MXSetSubgraphPropertyOpNames':
        if hasattr(library, name):
            setattr(library, name, _notes('subgraph', getattr(library, name)))
    library.MXSetProcessProfilerState = _notes('profiler', library.MXSetProcessProfilerState)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    _write('started core 0 ' + item.nodeid)
    _outcome[item.nodeid] = 'passed'
    _used.clear()
    start = time.time()
    signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(_LIMIT)
    yield
    signal.alarm(0)
    subject = next((s for s in _SUBJECTS if s in _used), 'core')
    _write('%s %s %.1f %s' % (_outcome[item.nodeid], subject, time.time() - start, item.nodeid))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    report = (yield).get_result()
    if report.failed:
        _outcome[item.nodeid] = 'failed'
        why = report.longrepr.reprcrash.message if hasattr(report.longrepr, 'reprcrash') else str(report.longrepr)
        with open(_LOG + '.why', 'a') as log:
            log.write('%s\n    %s\n' % (item.nodeid, why.strip()[:1000].replace('\n', '\n    ')))
    elif report.skipped and _outcome[item.nodeid] == 'passed':
        _outcome[item.nodeid] = 'skipped'
