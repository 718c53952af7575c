"""Key-value stores of one process, and the profiler."""
import json
import os
import tempfile

import numpy as np

import mxnet as mx
from environment import end, raises
from mxnet import nd, profiler


def stores():
    for kind in 'local', 'device', 'nccl':
        for keys in (3, 5), ('a', 'b'):
            store = mx.kv.create(kind)
            assert store.type == kind and store.rank == 0 and store.num_workers == 1
            store.init(list(keys), [nd.ones((2, 2)), nd.zeros((2, 2))])
            out = nd.empty((2, 2))
            store.pull(keys[0], out)
            np.testing.assert_array_equal(out.asnumpy(), 1)
            store.push(keys[0], [nd.ones((2, 2), mx.cpu(i)) * (i + 1) for i in range(3)])
            store.pull(keys[0], out)
            np.testing.assert_array_equal(out.asnumpy(), 6)
            both = [nd.ones((2, 2)), nd.ones((2, 2)) * 2]
            store.pushpull(list(keys), [both, both])
            np.testing.assert_array_equal(both[1].asnumpy(), 3)
            half = nd.empty((2, 2), dtype='float16')
            store.pull(keys[0], half)
            np.testing.assert_array_equal(half.asnumpy(), 3)
            raises(mx.MXNetError, lambda: store.init(keys[0], nd.ones((2, 2))))
            raises(mx.MXNetError, lambda: store.push(99 if keys[0] == 3 else 'zz', nd.ones((2, 2))))
            raises(mx.MXNetError, lambda: store.push('a' if keys[0] == 3 else 3, nd.ones((2, 2))), 'mixed key types')
    store = mx.kv.create('local')
    store.init('w', nd.ones((2, 3)))
    store.set_optimizer(mx.optimizer.SGD(learning_rate=0.5))
    store.push('w', [nd.ones((2, 3))] * 2)
    out = nd.empty((2, 3))
    store.pull('w', out)
    np.testing.assert_allclose(out.asnumpy(), 0)
    rows = mx.nd.sparse.zeros('row_sparse', (2, 3))
    store.row_sparse_pull('w', out=rows, row_ids=nd.array([1, 1]))
    assert rows.indices.asnumpy().tolist() == [1]
    raises(mx.MXNetError, lambda: mx.kv.create('dist_sync'), 'dist_sync')
    raises(mx.MXNetError, lambda: mx.kv.create('device').set_gradient_compression({'type': '2bit'}), 'compress')


def profiles():
    os.chdir(tempfile.mkdtemp())
    profiler.set_config(profile_all=True, filename='trace.json', aggregate_stats=True)
    profiler.set_state('run')
    domain = profiler.Domain('work')
    with_span = domain.new_task('task')
    with_span.start()
    x = nd.zeros((100, 100))
    nd.sqrt(x).wait_to_read()
    for _ in range(2):
        x = x + 1
    nd.waitall()
    with_span.stop()
    counter = domain.new_counter('steps', 5)
    counter += 3
    counter -= 1
    domain.new_marker('here').mark()
    profiler.pause()
    nd.cos(x).wait_to_read()
    profiler.resume()
    nd.sin(x).wait_to_read()
    statistics = json.loads(profiler.dumps(format='json'))
    operators = statistics['Time']['operator']
    assert operators['sqrt']['Count'] == 1 and operators['_plus_scalar']['Count'] == 2
    assert 'cos' not in operators and operators['sin']['Count'] == 1
    assert statistics['Time']['work']['task']['Count'] == 1
    assert statistics['Time']['work']['steps'] == {'Count': 3, 'Total': 20, 'Min': 5, 'Max': 8, 'Avg': 6.66667}
    assert set(statistics) == {'Time', 'Memory', 'Unit'}
    for ascending in False, True:
        rows = json.loads(profiler.dumps(format='json', sort_by='avg', ascending=ascending))['Time']['operator']
        averages = [row['Avg'] for row in rows.values()]
        assert averages == sorted(averages, reverse=not ascending)
    assert 'sqrt' in profiler.dumps(reset=True) and 'sqrt' not in profiler.dumps()
    profiler.dump()
    with open('trace.json') as file:
        events = json.load(file)['traceEvents']
    names = {e['name'] for e in events}
    assert {'sqrt', 'task', 'steps', 'here'} <= names and 'cos' not in names
    raises(mx.MXNetError, lambda: profiler.set_config(colour='red'), 'colour')
    raises(mx.MXNetError, lambda: profiler.set_state('run', profile_process='server'), 'servers')


stores()
profiles()
end('stores')
