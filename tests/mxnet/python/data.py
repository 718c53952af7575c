"""Files of records and the iterators by name: batches, padding, parts, order, labels, errors."""
import gc
import os
import struct
import tempfile

import numpy as np

import mxnet as mx
from environment import end, live, raises
from mxnet import recordio

os.chdir(tempfile.mkdtemp())


def labels(iterator, epochs=1):
    seen = []
    for _ in range(epochs):
        for batch in iterator:
            seen.append((batch.label[0].asnumpy().ravel().tolist(), batch.pad))
        iterator.reset()
    return seen


def records():
    words = [b'', b'a', b'abcd', struct.pack('<I', 0xced7230a) + b'x', os.urandom(1000)]
    writer = recordio.MXIndexedRecordIO('r.idx', 'r.rec', 'w')
    for i, word in enumerate(words):
        writer.write_idx(i, word)
    writer.close()
    reader = recordio.MXRecordIO('r.rec', 'r')
    assert [reader.read() for _ in words] == words and reader.read() is None
    reader.reset()
    assert reader.read() == words[0]
    indexed = recordio.MXIndexedRecordIO('r.idx', 'r.rec', 'r')
    assert [indexed.read_idx(i) for i in (3, 0, 4)] == [words[3], words[0], words[4]]
    with open('bad.rec', 'wb') as file:
        file.write(b'not a record at all')
    raises(mx.MXNetError, recordio.MXRecordIO('bad.rec', 'r').read, 'bad.rec')
    raises(mx.MXNetError, lambda: recordio.MXRecordIO('none.rec', 'r'), 'none.rec')


def tables():
    with open('d.csv', 'w') as data, open('l.csv', 'w') as label:
        for i in range(10):
            data.write(','.join(str(10 * i + j) for j in range(4)) + '\n')
            label.write('%d\n' % i)
    csv = mx.io.CSVIter(data_csv='d.csv', data_shape=(2, 2), label_csv='l.csv', batch_size=4)
    assert labels(csv, 3) == [([0, 1, 2, 3], 0), ([4, 5, 6, 7], 0), ([8, 9, 0, 1], 2), ([2, 3, 4, 5], 0),
                              ([6, 7, 8, 9], 0), ([0, 1, 2, 3], 0), ([4, 5, 6, 7], 0), ([8, 9, 0, 1], 2)]
    csv = mx.io.CSVIter(data_csv='d.csv', data_shape=(2, 2), label_csv='l.csv', batch_size=4, round_batch=False)
    assert labels(csv, 2) == 2 * [([0, 1, 2, 3], 0), ([4, 5, 6, 7], 0), ([8, 9, 6, 7], 2)]
    csv = mx.io.CSVIter(data_csv='d.csv', data_shape=(4,), batch_size=5, dtype='int64')
    assert csv.next().data[0].asnumpy().tolist()[1] == [10, 11, 12, 13] and csv.next().data[0].dtype == np.int64
    raises(mx.MXNetError, lambda: mx.io.CSVIter(data_csv='d.csv', data_shape=(3,), batch_size=5), 'line 1', '(3,)')
    raises(mx.MXNetError, lambda: mx.io.CSVIter(data_csv='d.csv', data_shape=(4,)), 'batch_size')
    raises(mx.MXNetError, lambda: mx.io.CSVIter(data_csv='d.csv', data_shape=(4,), batch_size=21), 'batch_size')

    with open('s.txt', 'w') as file:
        file.write('1.0 0:0.5 2:1.2\n-2.0\n-3.0 0:0.6 1:2.4 2:1.2\n4 2:-1.2\n')
    svm = mx.io.LibSVMIter(data_libsvm='s.txt', data_shape=(3,), batch_size=3)
    first = svm.next()
    assert first.data[0].stype == 'csr' and first.label[0].asnumpy().tolist() == [1, -2, -3]
    np.testing.assert_allclose(first.data[0].asnumpy(), [[0.5, 0, 1.2], [0, 0, 0], [0.6, 2.4, 1.2]], rtol=1e-6)
    assert svm.next().pad == 2
    raises(mx.MXNetError, lambda: mx.io.LibSVMIter(data_libsvm='s.txt', data_shape=(2,), batch_size=3), 'line 1')


def digits():
    with open('images', 'wb') as file:
        file.write(struct.pack('>iiii', 2051, 11, 2, 3) + bytes(range(66)))
    with open('labels', 'wb') as file:
        file.write(struct.pack('>ii', 2049, 11) + bytes(i % 10 for i in range(11)))
    files = dict(image='images', label='labels')
    mnist = mx.io.MNISTIter(batch_size=4, shuffle=False, **files)
    assert mnist.provide_data[0].shape == (4, 1, 2, 3)
    assert labels(mnist, 2) == 2 * [([0, 1, 2, 3], 0), ([4, 5, 6, 7], 0)]
    np.testing.assert_allclose(mnist.next().data[0].asnumpy()[1, 0], np.arange(6, 12).reshape(2, 3) / 256)
    flat = mx.io.MNISTIter(batch_size=5, flat=True, seed=3, **files)
    assert flat.provide_data[0].shape == (5, 6)
    once, again = labels(flat), labels(flat)
    assert once == again, 'one order for all epochs'
    parts = [labels(mx.io.MNISTIter(batch_size=1, shuffle=False, num_parts=2, part_index=i, **files)) for i in (0, 1)]
    assert [x for part in parts for (values, _) in part for x in values] == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0]


def images():
    random = np.random.RandomState(0)
    pictures = random.randint(0, 256, (10, 12, 16, 3)).astype('uint8')
    # PNG by the standard library alone: the values come back as they were
    import zlib

    def png(picture):
        def chunk(kind, data):
            return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))
        rows = b''.join(b'\0' + row.tobytes() for row in picture)
        return (b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', 16, 12, 8, 2, 0, 0, 0)) +
                chunk(b'IDAT', zlib.compress(rows)) + chunk(b'IEND', b''))
    writer = recordio.MXIndexedRecordIO('i.idx', 'i.rec', 'w')
    for i, picture in enumerate(pictures):
        writer.write_idx(i, recordio.pack(recordio.IRHeader(0, float(i), i, 0), png(picture)))
    writer.close()
    common = dict(path_imgrec='i.rec', data_shape=(3, 12, 16), batch_size=4, verbose=False)
    whole = mx.io.ImageRecordIter(**common)
    np.testing.assert_array_equal(whole.next().data[0].asnumpy(), pictures[:4].transpose(0, 3, 1, 2))
    whole.reset()
    assert labels(whole, 2)[2:4] == [([8, 9, 0, 1], 2), ([2, 3, 4, 5], 0)]
    scaled = mx.io.ImageRecordIter(mean_r=1, mean_g=2, mean_b=3, std_r=2, std_g=4, std_b=8, scale=0.5, **common)
    expected = (pictures[:4].astype('float32') - [1, 2, 3]) * 0.5 / [2, 4, 8]
    np.testing.assert_allclose(scaled.next().data[0].asnumpy(), expected.transpose(0, 3, 1, 2), rtol=1e-5)
    assert mx.io.ImageRecordUInt8Iter(**common).next().data[0].dtype == np.uint8
    small = dict(common, data_shape=(3, 6, 8))
    np.testing.assert_array_equal(mx.io.ImageRecordIter(**small).next().data[0].asnumpy(),
                                  pictures[:4, 3:9, 4:12].transpose(0, 3, 1, 2))
    mirrored = mx.io.ImageRecordIter(mirror=True, **common)
    np.testing.assert_array_equal(mirrored.next().data[0].asnumpy(), pictures[:4, :, ::-1].transpose(0, 3, 1, 2))

    def drawn(seed):
        iterator = mx.io.ImageRecordIter(shuffle=True, rand_crop=True, rand_mirror=True, seed=seed, **small)
        return [(b.label[0].asnumpy().tolist(), b.data[0].asnumpy().tobytes()) for b in iterator]
    assert drawn(1) == drawn(1) and drawn(1) != drawn(2)
    shuffled = mx.io.ImageRecordIter(shuffle=True, **dict(common, batch_size=5))
    assert sorted(sum((values for values, _ in labels(shuffled)), [])) == list(range(10))
    raises(mx.MXNetError, lambda: mx.io.ImageRecordIter(max_rotate_angle=10, **common), 'max_rotate_angle')
    raises(mx.MXNetError, lambda: mx.io.ImageRecordIter(label_width=2, **common).next(), 'label_width')


for check in records, tables, digits, images:
    before = live('all')
    check()
    gc.collect()
    assert live('all') == before, '%s leaves handles' % check.__name__
end('data')
