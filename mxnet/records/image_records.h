// Images of a file of records, in the order of the file or of its index, with labels of the records or of a list.
#pragma once

#include <string>

#include "kaon/gluon/data/dataset.h"
#include "kaon/mxnet/records/iterator_table.h"

namespace kaon::mxnet {

// Samples: an image (height, width, channels) of uint8, its labels, float32 (n,), and its number, int64, decoded when
// they are loaded. Reads what path_imgrec, path_imgidx, path_imglist, num_parts and part_index say, as far as the
// iterator has them. Blocks. Throws IoError, and ValueError that names the attribute.
gluon::data::Dataset image_records(const IteratorAttributes& attributes, int64_t channels);

}  // namespace kaon::mxnet
