#!/usr/bin/env python3
"""Writes operators.inc: the operators of an installed MXNet, with the names, the order and the types of their arguments.

    python make_operators.py > operators.inc

Needs MXNet 1.9.1 (and numpy below 1.24). Gradients of operators (_backward_*) are left out: programs do not name them.
"""
import ctypes

from mxnet.base import _LIB, check_call

STRINGS = ctypes.POINTER(ctypes.c_char_p)


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
    return real.value.decode(), num_args_key.value.decode(), arguments


def main():
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
    print('// counts the inputs; each argument and its type.')
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
