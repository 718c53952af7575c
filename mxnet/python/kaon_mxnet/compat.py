"""What MXNet 1.9.1's package takes of NumPy and of the standard library, for versions that no longer have it.

NumPy 1.24 took away the names of Python's types, NumPy 2 many aliases and the functions of finance, which MXNet names
in a list; Python 3.12 took away distutils. Nothing that is there is changed.
"""
import importlib
import sys
import types


def _absent(name):
    def function(*_, **__):
        raise NotImplementedError('numpy.%s is not part of this NumPy' % name)
    function.__name__ = name
    return function


def _numpy_names(np):
    """Names, and what they were."""
    yield from {'bool': bool, 'object': object, 'int': int, 'float': float, 'complex': complex, 'str': str}.items()
    yield from {'float_': np.float64, 'complex_': np.complex128, 'unicode_': np.str_, 'string_': np.bytes_}.items()
    yield from {'PZERO': 0.0, 'NZERO': -0.0, 'PINF': np.inf, 'NINF': -np.inf}.items()
    for name in 'Inf', 'Infinity', 'infty':
        yield name, np.inf
    for name in 'NaN', 'NAN':
        yield name, np.nan
    yield from {'round_': np.round, 'product': np.prod, 'cumproduct': np.cumprod, 'alltrue': np.all,
                'sometrue': np.any, 'row_stack': np.vstack}.items()
    yield 'in1d', lambda a, b, *args, **kwargs: np.isin(a, b, *args, **kwargs).ravel()
    yield 'msort', lambda a: np.sort(a, axis=0)
    if hasattr(np, 'trapezoid'):
        yield 'trapz', np.trapezoid
    for name in 'fv', 'ipmt', 'irr', 'mirr', 'nper', 'npv', 'pmt', 'ppmt', 'pv', 'rate':
        yield name, _absent(name)


def _install_numpy():
    import numpy as np
    import warnings
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')  # asking for a name that is deprecated warns
        for name, value in _numpy_names(np):
            try:
                getattr(np, name)
            except AttributeError:
                setattr(np, name, value)


class _Version:
    """distutils.version.LooseVersion as MXNet uses it: two versions are compared."""

    def __init__(self, text):
        self.vstring = text
        self.version = []
        part = ''
        for c in text + '.':
            if c == '.' or (part and part[-1].isdigit() != c.isdigit()):
                if part:
                    self.version.append(int(part) if part.isdigit() else part)
                part = '' if c == '.' else c
            else:
                part += c

    def _compared(self, other):
        return self.version, (other if isinstance(other, _Version) else _Version(other)).version

    def __eq__(self, other):
        a, b = self._compared(other)
        return a == b

    def __lt__(self, other):
        a, b = self._compared(other)
        return a < b

    def __le__(self, other):
        return self < other or self == other

    def __gt__(self, other):
        return not self <= other

    def __ge__(self, other):
        return not self < other


def _install_distutils():
    try:
        importlib.import_module('distutils.version')
    except ImportError:
        package, module = types.ModuleType('distutils'), types.ModuleType('distutils.version')
        module.LooseVersion = module.StrictVersion = _Version
        package.version = module
        sys.modules['distutils'], sys.modules['distutils.version'] = package, module


def install():
    _install_numpy()
    _install_distutils()
