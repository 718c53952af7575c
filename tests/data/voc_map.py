# Writes voc_map.txt beside it: random labels and detections, and their mean average precisions by NumPy.
# Lines of a case: batch, objects, columns of labels, detections, least overlap; labels; detections; exact area and 2007.
import os

import numpy as np


def iou(boxes, box):
    low, high = np.maximum(boxes[:, :2], box[:2]), np.minimum(boxes[:, 2:], box[2:])
    inside = np.clip(high - low, 0, None).prod(1)
    return inside / ((boxes[:, 2:] - boxes[:, :2]).prod(1) + (box[2:] - box[:2]).prod() - inside)


def mean_precision(labels, found, least, voc07):
    results = []
    for c in range(4):
        scores, right, total = [], [], 0
        for l, f in zip(labels, found):
            l = l[l[:, 0] == c]
            hard = l[:, 5] > 0 if l.shape[1] == 6 else np.zeros(len(l), bool)
            total += (~hard).sum()
            used = np.zeros(len(l), bool)
            f = f[f[:, 0] == c]
            for d in f[np.argsort(-f[:, 1], kind="stable")]:
                o = iou(l[:, 1:5], d[2:]) if len(l) else np.zeros(1)
                j = o.argmax()
                if o[j] < least:
                    scores.append(d[1]), right.append(0)
                elif not hard[j]:
                    scores.append(d[1]), right.append(int(not used[j]))
                    used[j] = True
        if not total:
            continue
        right = np.array(right)[np.argsort(-np.array(scores), kind="stable")] if scores else np.zeros(0)
        recall, precision = right.cumsum() / total, right.cumsum() / np.arange(1, len(right) + 1)
        if voc07:
            results.append(np.mean([max(precision[recall >= t / 10], default=0) for t in range(11)]))
        else:  # the integral of the best precision from each recall on
            edges = np.unique(np.concatenate([[0], recall]))
            results.append(sum((b - a) * precision[recall >= b].max() for a, b in zip(edges, edges[1:])))
    return np.mean(results)


def corners(rng, n):
    low, size = rng.uniform(0, 0.6, (n, 2)), rng.uniform(0.1, 0.4, (n, 2))
    return np.concatenate([low, low + size], 1)


rng = np.random.default_rng(1)
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "voc_map.txt"), "w") as f:
    for batch, m, width, n, least in [(3, 4, 5, 8, 0.5), (4, 3, 6, 9, 0.5), (2, 6, 6, 12, 0.3), (1, 1, 5, 1, 0.5)]:
        labels, found = [], []
        for _ in range(batch):
            l = np.concatenate([rng.integers(0, 3, (m, 1)), corners(rng, m)], 1)
            if width == 6:
                l = np.concatenate([l, rng.integers(0, 4, (m, 1)) == 0], 1)
            if m > 1:
                l[-1] = -1  # padding
            d = np.concatenate([rng.integers(-1, 4, (n, 1)), rng.uniform(0, 1, (n, 1)), corners(rng, n)], 1)
            near = rng.integers(0, m, n // 2 + 1)  # half of them near an object
            d[:len(near), 2:] = l[near, 1:5] + rng.uniform(-0.03, 0.03, (len(near), 4))
            d[:len(near), 0] = l[near, 0]
            labels.append(l), found.append(d)
        labels, found = np.array(labels).round(3), np.array(found).round(3)
        print(batch, m, width, n, least, file=f)
        for a in (labels, found, [mean_precision(labels, found, least, v) for v in (False, True)]):
            print(*(f"{v:.9g}" for v in np.ravel(a)), file=f)
