#!/usr/bin/env python3
"""Writes operators.inc: the operators of an installed MXNet, with the names, the order and the types of their arguments.

    python make_operators.py > operators.inc

Needs MXNet 1.9.1 (and numpy below 1.24). Gradients of operators (_backward_*) are left out: programs do not name them.
"""
import ctypes
import re

from mxnet.base import _LIB, check_call

STRINGS = ctypes.POINTER(ctypes.c_char_p)


def read_arguments(handle):
    """The attributes that the operator reads, as the refusal of another one names them."""
    key, value, symbol = (ctypes.c_char_p * 1)(b'no_such_argument'), (ctypes.c_char_p * 1)(b'1'), ctypes.c_void_p()
    if _LIB.MXSymbolCreateAtomicSymbol(handle, 1, key, value, ctypes.byref(symbol)) == 0:
        check_call(_LIB.NNSymbolFree(symbol))
        return []
    return re.findall(r'^(\w+) : (.*)$', _LIB.MXGetLastError().decode(), re.M)


def operator(name):
    handle = ctypes.c_void_p()
    check_call(_LIB.NNGetOpHandle(name, ctypes.byref(handle)))
    real, text, count = ctypes.c_char_p(), ctypes.c_char_p(), ctypes.c_uint32()
    names, types, texts = STRINGS(), STRINGS(), STRINGS()
    num_args_key, result = ctypes.c_char_p(), ctypes.c_char_p()
    check_call(_LIB.MXSymbolGetAtomicSymbolInfo(
        handle, ctypes.byref(real), ctypes.byref(text), ctypes.byref(count), ctypes.byref(names), ctypes.byref(types),
        ctypes.byref(texts), ctypes.byref(num_args_key), ctypes.byref(result)))
    arguments = [(names[i].decode(), types[i].decode()) for i in range(count.value)]
    listed = {argument for argument, _ in arguments} | {num_args_key.value.decode()}
    arguments += [('+' + argument, kind) for argument, kind in read_arguments(handle) if argument not in listed]
    return real.value.decode(), num_args_key.value.decode(), arguments


def main():
    _LIB.MXGetLastError.restype = ctypes.c_char_p
    count, names = ctypes.c_uint32(), STRINGS()
    check_call(_LIB.MXListAllOpNames(ctypes.byref(count), ctypes.byref(names)))
    operators = {}
    for name in sorted(names[i] for i in range(count.value)):
        if name.startswith(b'_backward'):
            continue
        real, num_args_key, arguments = operator(name)
        aliases = operators.setdefault(real, (num_args_key, arguments, []))[2]
        if name.decode() != real:
            aliases.append(name.decode())
    print('// Made by make_operators.py from MXNet 1.9.1. An operator, "=" and its other names; "*" and the argument that')
    print('// counts the inputs; each argument and its type; "+": it is read, but programs are not told of it.')
    print('R"(')
    for name, (num_args_key, arguments, aliases) in sorted(operators.items()):
        if name.startswith('_backward'):
            continue
        print(' = '.join([name] + ([' '.join(aliases)] if aliases else [])))
        if num_args_key:
            print('  *' + num_args_key)
        for argument, kind in arguments:
            assert '\n' not in kind and ')"' not in kind
            print('  %s: %s' % (argument, kind))
    print(')"')


main()
