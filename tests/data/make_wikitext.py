"""Writes wikitext/: two small files in the form of WikiText's, and answers.json, what MXNet 1.9.1's classes make of
them: vocabularies, frequencies and samples.

    MXNET_SUBGRAPH_BACKEND=NONE python make_wikitext.py
"""
import collections
import json
import os

from mxnet.contrib.text.vocab import Vocabulary
from mxnet.gluon.contrib.data import text

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "wikitext")
TRAIN = """ 
 = A title = 
 
 The cat saw the dog , and the dog saw the <unk> .  It ran\tfar \u00a0 away . 
\r
 = = Naïve caf\u00e9 = = \r
 The cat\u3000sat\u2003on the m\u0101t .\u2028 And so did the dog ; <unk> did not .\x1cOr did it ?\x1f\x85
\u732b \U0001f408 the cat\v
"""
VALIDATION = " = Another = \n\n The mouse saw the cat . <eos> Twice .\n"


class Local(text.WikiText2):
    """The file is there, whatever its checksum."""

    def _get_data(self):
        check, text.check_sha1 = text.check_sha1, lambda path, digest: True
        try:
            super()._get_data()
        finally:
            text.check_sha1 = check


def answer(segment, seq_len, vocab=None):
    dataset = Local(FOLDER, segment, vocab, seq_len)
    return dataset, {"segment": segment, "seq_len": seq_len, "own": vocab is None,
                     "tokens": dataset.vocabulary.idx_to_token, "frequencies": dict(dataset.frequencies),
                     "samples": [[a.asnumpy().tolist() for a in dataset[i]] for i in range(len(dataset))]}


def main():
    os.makedirs(FOLDER, exist_ok=True)
    for name, content in ("train", TRAIN), ("valid", VALIDATION):
        with open(os.path.join(FOLDER, "wiki.%s.tokens" % name), "w", encoding="utf8", newline="") as file:
            file.write(content)
    train, first = answer("train", 5)
    answers = [first, answer("train", 1)[1], answer("train", 35)[1], answer("validation", 4, train.vocabulary)[1],
               answer("validation", 3)[1]]
    counter = collections.Counter({"b": 3, "a": 3, "c": 1, "d": 5, "<pad>": 9, "e": 2})
    vocabularies = []
    for options in ({}, {"min_freq": 2}, {"most_freq_count": 2}, {"most_freq_count": 0},
                    {"most_freq_count": 3, "min_freq": 3, "unknown_token": "?", "reserved_tokens": ["<pad>", "x"]}):
        vocabularies.append({"options": options, "tokens": Vocabulary(counter, **options).idx_to_token})
    with open(os.path.join(FOLDER, "answers.json"), "w") as file:
        json.dump({"datasets": answers, "counts": counter, "vocabularies": vocabularies}, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
