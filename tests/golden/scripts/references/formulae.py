"""Formulae by operator, and the attributes that they read. Each is f(attrs, inputs) with float64 tensors."""
import ast

FORMULAE = {}


def formula(names):
    def add(function):
        for name in names.split():
            FORMULAE[name] = function
        return function

    return add


class Attrs:
    """Attribute texts as values."""

    def __init__(self, texts):
        self.texts = texts

    def get(self, key, default=None):
        if key not in self.texts:
            return default
        try:
            return ast.literal_eval(self.texts[key])
        except ValueError:
            return self.texts[key]

    def tuple(self, key, default=()):
        value = self.get(key)
        if value is None:
            return tuple(default)
        return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def at_least_1d(y):
    return y.reshape(1) if y.ndim == 0 else y
