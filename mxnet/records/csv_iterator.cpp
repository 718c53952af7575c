// CSVIter: rows of numbers with commas between them.
#include <fmt/format.h>

#include <charconv>
#include <fstream>
#include <numeric>

#include "kaon/engine/error.h"
#include "kaon/mxnet/records/data_iterator.h"

namespace kaon::mxnet {

using namespace gluon::data;

namespace {

// The rows of a file, each of `row` elements, as (rows, ...row).
template <class T>
HostTensor read_rows(const IteratorAttributes& attributes, const std::string& file, const Shape& row) {
  std::ifstream in(file);
  if (!in) throw IoError(fmt::format("[CSVIter] {}: cannot open the file", file));
  const int64_t width = row.size();
  std::vector<T> values;
  int64_t rows = 0;
  std::string line;
  for (int64_t number = 1; std::getline(in, line); ++number) {
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    int64_t count = 0;
    for (const char *at = line.data(), *end = at + line.size(); at <= end; ++count) {
      const char* comma = std::find(at, end, ',');
      const char* from = std::find_if(at, comma, [](char c) { return c != ' ' && c != '\t'; });
      const char* to = comma;
      while (to > from && (to[-1] == ' ' || to[-1] == '\t' || to[-1] == '\r')) --to;
      if (from < to && *from == '+') ++from;
      T value{};
      const auto [stop, error] = std::from_chars(from, to, value);
      if (error != std::errc() || stop != to) {
        throw IoError(fmt::format("[CSVIter] {}: line {}: expected a number at column {}, got '{}'", file, number,
                                  count + 1, std::string(from, to)));
      }
      values.push_back(value);
      at = comma + 1;
    }
    if (count != width) {
      throw IoError(fmt::format("[CSVIter] {}: line {}: expected {} numbers, as the shape {} has, got {}", file, number,
                                width, row.str(), count));
    }
    ++rows;
  }
  if (rows == 0) attributes.fail("data_csv", fmt::format("{} has no rows", file));
  Shape shape(rows);
  for (const int64_t d : row) shape.push_back(d);
  return HostTensor(shape, values);
}

template <class T>
Dataset dataset(const IteratorAttributes& attributes) {
  HostTensor data = read_rows<T>(attributes, attributes.text("data_csv"), attributes.shape("data_shape"));
  const int64_t count = data.shape()[0];
  const Shape label_shape = attributes.shape("label_shape");
  Shape labels(count);
  if (label_shape != Shape(1)) {
    for (const int64_t d : label_shape) labels.push_back(d);
  }
  HostTensor label(labels, dtype_of<T>);
  const std::string file = attributes.text("label_csv");
  if (file != "NULL") {
    label = read_rows<T>(attributes, file, label_shape);
    if (label.shape()[0] != count) {
      attributes.fail("label_csv",
                      fmt::format("expected {} rows, as many as data_csv has, got {}", count, label.shape()[0]));
    }
    label = std::move(label).reshape(labels);
  }
  std::vector<int64_t> index(static_cast<size_t>(count));
  std::iota(index.begin(), index.end(), 0);
  return ArrayDataset(std::vector<HostTensor>{std::move(data), std::move(label), HostTensor(Shape(count), index)});
}

}  // namespace

std::unique_ptr<DataIterator> make_csv_iterator(const IteratorAttributes& attributes) {
  const BatchOptions options = batch_options(attributes);
  const auto make = [&](Dataset d) { return std::make_unique<DataIterator>(std::move(d), options); };
  switch (attributes.dtype().value_or(DType::float32)) {
    case DType::float32: return make(dataset<float>(attributes));
    case DType::int32: return make(dataset<int32_t>(attributes));
    case DType::int64: return make(dataset<int64_t>(attributes));
    default: attributes.fail("dtype", "expected float32, int32 or int64, got " + attributes.text("dtype"));
  }
}

}  // namespace kaon::mxnet
