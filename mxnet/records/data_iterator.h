// DataIterator: batches of a dataset in MXNet's order, and the kinds of iterators that programs make by name.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "kaon/gluon/data/data_loader.h"
#include "kaon/gluon/data/dataset.h"
#include "kaon/mxnet/handle/handle.h"
#include "kaon/mxnet/records/iterator_table.h"

namespace kaon::mxnet {

// How samples become batches.
struct BatchOptions {
  int64_t batch_size = 1;
  // The last batch of a pass that is not full: its rest is taken from the beginning of the next pass, which the next
  // epoch continues; without, from the batch before it, and the next epoch starts anew. Either way `pad` counts them.
  bool round_batch = true;
  bool drops_last = false;  // it is left out
  bool shuffles = false;    // each pass in another order
  uint64_t seed = 0;        // of order and augmentation
  int workers = 1;          // batches that are loaded at a time
  int prefetch = 4;         // batches ahead of the program
};

// Samples are (data, label) or (data, label, index), index an int64. Arrays are loaded ahead on the io pool.
// Thread safety: one thread.
class DataIterator : public Counted<DataIterator> {
 public:
  // Throws ValueError for a batch size that is not positive, and next() for a dataset that has fewer samples than a
  // batch that is to be rounded.
  DataIterator(gluon::data::Dataset dataset, const BatchOptions& options);

  // What programs see in place of the arrays that the samples make; empty: these.
  using Show = std::function<std::unique_ptr<ArrayObject>(const NDArray&)>;
  void show(Show data, Show label) { show_data_ = std::move(data), show_label_ = std::move(label); }

  bool next();  // blocks until the batch is loaded; throws what its loading threw
  void before_first();

  // Of the current batch, as new handles; throw StateError without one.
  std::unique_ptr<ArrayObject> data() const { return shown(current().data, show_data_); }
  std::unique_ptr<ArrayObject> label() const { return shown(current().label, show_label_); }
  const std::vector<uint64_t>& index();  // of the samples; empty where they have none
  int pad() const { return pads_.at(size_t(batch_)); }

 private:
  static std::unique_ptr<ArrayObject> shown(const NDArray& array, const Show& show) {
    return show ? show(array) : std::make_unique<ArrayObject>(array);
  }
  const gluon::data::Batch& current() const;
  void begin();
  std::vector<int64_t> pass(uint64_t number) const;  // the samples of a pass in order

  gluon::data::Dataset dataset_;
  BatchOptions options_;
  uint64_t pass_ = 0;   // that the next epoch begins in
  int64_t start_ = 0;   // its first sample that the next epoch takes
  uint64_t epoch_ = 0;  // that is read, counted from 0
  std::vector<int> pads_;
  std::optional<gluon::data::SyncBatches> batches_;  // of the epoch that is read
  std::optional<gluon::data::SyncBatches::Iterator> at_;
  int64_t batch_ = -1;
  bool is_at_end_ = false;
  std::vector<uint64_t> index_;
  Show show_data_, show_label_;
};

// Samples [begin, end) of part `index` of `parts`. Throws ValueError that names the iterator.
struct Part {
  int64_t begin, end;
};
Part part_of(const IteratorAttributes& attributes, int64_t samples);

// What batch_size, round_batch and prefetch_buffer say, as far as the iterator has them.
BatchOptions batch_options(const IteratorAttributes& attributes);

// The iterators, by what MXNet's names stand for. Block; throw ValueError for attributes, IoError for files.
std::unique_ptr<DataIterator> make_csv_iterator(const IteratorAttributes& attributes);
std::unique_ptr<DataIterator> make_libsvm_iterator(const IteratorAttributes& attributes);
std::unique_ptr<DataIterator> make_mnist_iterator(const IteratorAttributes& attributes);
std::unique_ptr<DataIterator> make_image_iterator(const IteratorAttributes& attributes);
std::unique_ptr<DataIterator> make_detection_iterator(const IteratorAttributes& attributes);

}  // namespace kaon::mxnet
