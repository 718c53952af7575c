"""What the programs of this folder share."""
import ctypes
import os
import sys

import mxnet as mx


def live(kind):
    """How many handles exist, of arrays ('array') or of all kinds ('all')."""
    count = ctypes.c_int64()
    mx.base.check_call(mx.base._LIB.KaonLiveHandles(kind.encode(), ctypes.byref(count)))
    return count.value


def raises(kinds, call, *texts):
    """The error that the call raises, which is one of `kinds` and contains the texts."""
    try:
        call()
    except kinds as error:
        for text in texts:
            assert text in str(error), 'expected %r in %r' % (text, str(error))
        return error
    raise AssertionError('expected %s, got none' % (kinds,))


def resident_kb():
    with open('/proc/self/statm') as numbers:
        return int(numbers.read().split()[1]) * os.sysconf('SC_PAGE_SIZE') // 1024


def end(name):
    print(name, 'passed')
    sys.stdout.flush()
