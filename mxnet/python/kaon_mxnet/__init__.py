"""MXNet 1.9.1's Python package on Kaon.

    import kaon_mxnet      # before mxnet
    import mxnet as mx

or `python -m kaon_mxnet program.py` for a program as it is. activate() chooses the library and gives back what MXNet's
package takes of NumPy and of the standard library and newer versions do not have.
"""
import ctypes
import os
import sys

from . import compat

__version__ = '0.1.0'


class LibraryNotFound(ImportError):
    """There is no libkaon_mxnet.so."""


def library_path():
    """The library: KAON_MXNET_LIBRARY, or the one that is installed with this package."""
    given = os.environ.get('KAON_MXNET_LIBRARY')
    path = os.path.abspath(given or os.path.join(os.path.dirname(__file__), 'libkaon_mxnet.so'))
    if not os.path.isfile(path):
        raise LibraryNotFound('kaon_mxnet: expected libkaon_mxnet.so at %s%s, there is none' %
                              (path, ' (KAON_MXNET_LIBRARY)' if given else ''))
    return path


def _load_companions():
    """Loads the libraries that Kaon's needs and that came with the package, those that others need first."""
    folder = os.path.join(os.path.dirname(__file__), 'libraries')
    order = os.path.join(folder, 'order.txt')
    if not os.path.isfile(order):
        return
    with open(order) as names:
        for name in names.read().split():
            ctypes.CDLL(os.path.join(folder, name), ctypes.RTLD_GLOBAL)


def activate():
    """Makes `import mxnet` use Kaon, in this process and in those that it starts. Gives the library's path."""
    if 'mxnet' in sys.modules:
        raise ImportError('kaon_mxnet: mxnet is imported already: import kaon_mxnet before it')
    path = library_path()
    _load_companions()
    os.environ['MXNET_LIBRARY_PATH'] = path
    # the package would ask for a backend that partitions graphs for oneDNN as MXNet has it
    os.environ.setdefault('MXNET_SUBGRAPH_BACKEND', 'NONE')
    compat.install()
    return path


if os.environ.get('KAON_MXNET_ACTIVATE', '1') != '0' and 'mxnet' not in sys.modules:
    activate()
