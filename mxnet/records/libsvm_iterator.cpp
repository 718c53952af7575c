// LibSVMIter: lines of a label and of the elements that are not zero. Its batches are csr arrays.
#include <fmt/format.h>

#include <charconv>
#include <fstream>

#include "kaon/engine/error.h"
#include "kaon/mxnet/handle/sparse_array.h"
#include "kaon/mxnet/records/data_iterator.h"

namespace kaon::mxnet {

using namespace gluon::data;

namespace {

// The lines of a file: their first number, and the elements of line i from begins[i] to begins[i + 1].
struct SparseRows {
  std::vector<float> first;
  std::vector<size_t> begins{0};
  std::vector<int64_t> columns;
  std::vector<float> values;
  int64_t width = 0;

  int64_t count() const { return int64_t(first.size()); }
};

SparseRows read_lines(const std::string& file, int64_t width) {
  std::ifstream in(file);
  if (!in) throw IoError(fmt::format("[LibSVMIter] {}: cannot open the file", file));
  SparseRows rows;
  rows.width = width;
  std::string line;
  for (int64_t number = 1; std::getline(in, line); ++number) {
    const auto fail = [&](const std::string& what, std::string_view got) {
      throw IoError(fmt::format("[LibSVMIter] {}: line {}: expected {}, got '{}'", file, number, what, got));
    };
    std::string_view rest = line;
    bool is_first = true;
    while (true) {
      const size_t begin = rest.find_first_not_of(" \t\r");
      if (begin == rest.npos || rest[begin] == '#') break;
      rest.remove_prefix(begin);
      const std::string_view word = rest.substr(0, rest.find_first_of(" \t\r"));
      rest.remove_prefix(word.size());
      const size_t colon = word.find(':');
      std::string_view text = colon == word.npos ? word : word.substr(colon + 1);
      if (text.starts_with('+')) text.remove_prefix(1);
      float value = 1;
      const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
      if (error != std::errc() || stop != text.data() + text.size()) fail("a number", word);
      if (is_first && colon == word.npos) {
        rows.first.push_back(value);
      } else {
        int64_t column = -1;
        const std::string_view name = word.substr(0, colon);
        const auto [end, wrong] = std::from_chars(name.data(), name.data() + name.size(), column);
        if (is_first || colon == word.npos || wrong != std::errc() || end != name.data() + name.size()) {
          fail(is_first ? "a label" : "index:value", word);
        }
        if (column < 0 || column >= width) fail(fmt::format("an index from 0 to {}", width - 1), word);
        rows.columns.push_back(column);
        rows.values.push_back(value);
      }
      is_first = false;
    }
    if (!is_first) rows.begins.push_back(rows.values.size());
  }
  return rows;
}

// The lines of those numbers, one below the other.
std::unique_ptr<ArrayObject> as_csr(const SparseRows& rows, const NDArray& numbers) {
  std::vector<int64_t> indptr{0}, columns;
  std::vector<float> values;
  for (const int64_t row : numbers.asvector<int64_t>(no_site)) {
    for (size_t i = rows.begins[size_t(row)]; i < rows.begins[size_t(row) + 1]; ++i) {
      columns.push_back(rows.columns[i]);
      values.push_back(rows.values[i]);
    }
    indptr.push_back(int64_t(columns.size()));
  }
  const auto array = [](const auto& list, DType dtype) {
    return NDArray::from(list.data(), list.size(), Shape(int64_t(list.size())), dtype, cpu(0));
  };
  auto csr =
      nothing_stored(ops::StorageType::csr, Shape(int64_t(indptr.size()) - 1, rows.width), DType::float32, cpu(0));
  csr->data = array(values, DType::float32);
  csr->aux = {array(indptr, DType::int64), array(columns, DType::int64)};
  return std::make_unique<ArrayObject>(std::move(csr), Context());
}

}  // namespace

std::unique_ptr<DataIterator> make_libsvm_iterator(const IteratorAttributes& attributes) {
  const Shape data_shape = attributes.shape("data_shape");
  if (data_shape.ndim() != 1) {
    attributes.fail("data_shape", fmt::format("expected one dimension, got {}", data_shape.str()));
  }
  if (attributes.dtype().value_or(DType::float32) != DType::float32) {
    attributes.fail("dtype", "expected float32, got " + attributes.text("dtype"));
  }
  Shape label_shape = attributes.shape("label_shape");
  const auto data = std::make_shared<const SparseRows>(read_lines(attributes.text("data_libsvm"), data_shape.size()));
  std::shared_ptr<const SparseRows> labels;
  if (const std::string file = attributes.text("label_libsvm"); file != "NULL") {
    labels = std::make_shared<const SparseRows>(read_lines(file, label_shape.size()));
    if (labels->count() != data->count()) {
      attributes.fail("label_libsvm", fmt::format("expected {} lines, as many as data_libsvm has, got {}",
                                                  data->count(), labels->count()));
    }
  } else if (label_shape != Shape(1)) {
    attributes.fail("label_shape", fmt::format("expected (1,) without label_libsvm, got {}", label_shape.str()));
  }
  const Part part = part_of(attributes, data->count());
  Dataset rows(part.end - part.begin, [=](int64_t i) {
    const int64_t row = part.begin + i;
    return Sample(HostTensor(row), labels ? HostTensor(row) : HostTensor(data->first[size_t(row)]), HostTensor(row));
  });
  auto iterator = std::make_unique<DataIterator>(std::move(rows), batch_options(attributes));
  const auto show = [](const std::shared_ptr<const SparseRows>& lines) -> DataIterator::Show {
    if (!lines) return {};
    return [lines](const NDArray& numbers) { return as_csr(*lines, numbers); };
  };
  iterator->show(show(data), show(labels));
  return iterator;
}

}  // namespace kaon::mxnet
