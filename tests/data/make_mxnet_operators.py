# Writes mxnet_operators.txt with MXNet 1.9.1: a line for each operator but gradients, its name and its aliases.
import collections
import ctypes
import pathlib

from mxnet.base import _LIB, check_call

count = ctypes.c_uint()
names = ctypes.POINTER(ctypes.c_char_p)()
check_call(_LIB.NNListAllOpNames(ctypes.byref(count), ctypes.byref(names)))
operators = collections.defaultdict(list)
for k in range(count.value):
    handle = ctypes.c_void_p()
    check_call(_LIB.NNGetOpHandle(names[k], ctypes.byref(handle)))
    operators[handle.value].append(names[k].decode())

lines = []
for handle, every_name in operators.items():
    name, text = ctypes.c_char_p(), ctypes.c_char_p()
    arguments = ctypes.c_uint()
    lists = [ctypes.POINTER(ctypes.c_char_p)() for _ in range(3)]
    return_type = ctypes.c_char_p()
    check_call(_LIB.NNGetOpInfo(ctypes.c_void_p(handle), ctypes.byref(name), ctypes.byref(text),
                                ctypes.byref(arguments), *(ctypes.byref(one) for one in lists),
                                ctypes.byref(return_type)))
    first = name.value.decode()
    if "backward" in first:
        continue
    lines.append(" ".join([first, *sorted(other for other in every_name if other != first)]))
out = pathlib.Path(__file__).with_name("mxnet_operators.txt")
out.write_text("\n".join(sorted(lines)) + "\n")
print(len(lines), "operators")
