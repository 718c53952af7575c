#!/usr/bin/env python3
"""Writes iterators.inc: the data iterators of an installed MXNet, with the names and the types of their arguments.

    python make_iterators.py > iterators.inc

Needs MXNet 1.9.1 (and numpy below 1.24).
"""
import ctypes

from mxnet.base import _LIB, check_call

STRINGS = ctypes.POINTER(ctypes.c_char_p)


def iterator(creator):
    name, text, count = ctypes.c_char_p(), ctypes.c_char_p(), ctypes.c_uint32()
    names, types, texts = STRINGS(), STRINGS(), STRINGS()
    check_call(_LIB.MXDataIterGetIterInfo(
        ctypes.c_void_p(creator), ctypes.byref(name), ctypes.byref(text), ctypes.byref(count), ctypes.byref(names),
        ctypes.byref(types), ctypes.byref(texts)))
    arguments = {}
    for i in range(count.value):  # some stand in two groups of arguments
        arguments.setdefault(names[i].decode(), types[i].decode())
    return name.value.decode(), arguments


def main():
    count, creators = ctypes.c_uint32(), ctypes.POINTER(ctypes.c_void_p)()
    check_call(_LIB.MXListDataIters(ctypes.byref(count), ctypes.byref(creators)))
    print('// Made by make_iterators.py from MXNet 1.9.1. An iterator; each argument and its type.')
    print('R"(')
    for name, arguments in sorted(iterator(creators[i]) for i in range(count.value)):
        print(name)
        for argument, kind in arguments.items():
            assert '\n' not in kind and ')"' not in kind
            print('  %s: %s' % (argument, kind))
    print(')"')


main()
