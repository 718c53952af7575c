"""SIGINT while the program waits for arrays: the wait ends by itself, KeyboardInterrupt follows, and all goes on."""
import os
import signal
import threading
import time

import mxnet as mx
from environment import end
from mxnet import nd

signal.signal(signal.SIGINT, signal.default_int_handler)
x = nd.random.normal(shape=(600, 600))
nd.waitall()
for waits in (lambda y: y.wait_to_read(), lambda y: nd.waitall(), lambda y: y.asnumpy()):
    y = x
    for _ in range(40):
        y = nd.dot(y, x)
        y = y / 600
    timer = threading.Timer(0.02, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        waits(y)
        time.sleep(2)  # where the wait was shorter than the timer
        raise AssertionError('expected KeyboardInterrupt')
    except KeyboardInterrupt:
        pass
    timer.join()
    assert y.shape == (600, 600)
    assert float((nd.ones(3) + 1).sum().asscalar()) == 6
end('interrupt')
