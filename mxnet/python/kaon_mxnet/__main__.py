"""python -m kaon_mxnet [-m module | -c code | program.py] [arguments]: runs a program for MXNet on Kaon."""
import os
import runpy
import sys

import kaon_mxnet  # noqa: F401  activates


def main():
    arguments = sys.argv[1:]
    if not arguments or arguments[0] in ('-h', '--help'):
        print(__doc__)
        return 0 if arguments else 2
    if arguments[0] in ('-m', '-c'):
        if len(arguments) < 2:
            print('kaon_mxnet: %s needs an argument' % arguments[0], file=sys.stderr)
            return 2
        kind, what = arguments[:2]
        sys.argv = [what if kind == '-m' else '-c'] + arguments[2:]
        sys.path.insert(0, os.getcwd())
        if kind == '-m':
            runpy.run_module(what, run_name='__main__', alter_sys=True)
        else:
            exec(compile(what, '<string>', 'exec'), {'__name__': '__main__'})  # pylint: disable=exec-used
        return 0
    if not os.path.exists(arguments[0]):
        print('kaon_mxnet: there is no program %s' % arguments[0], file=sys.stderr)
        return 2
    sys.argv = arguments
    sys.path.insert(0, os.path.dirname(os.path.abspath(arguments[0])))
    runpy.run_path(arguments[0], run_name='__main__')
    return 0


if __name__ == '__main__':
    sys.exit(main())
