#include <fmt/format.h>

#include <vector>

#include "kaon/engine/error.h"
#include "kaon/ops/array/stored_array.h"
#include "kaon/ops/sparse/sparse.h"

namespace kaon::sparse {

using namespace ops;

void save(const std::filesystem::path& file, const NamedAnyArrays& arrays) {
  NamedStoredArrays stored;
  for (const auto& [name, array] : arrays) {
    StoredArray s{.shape = {}, .data = {}, .aux = {}};
    if (const auto* rows = std::get_if<RowSparseNDArray>(&array)) {
      s = {.storage = StorageType::row_sparse, .shape = rows->shape(), .data = rows->data(), .aux = {rows->indices()}};
    } else if (const auto* csr = std::get_if<CSRNDArray>(&array)) {
      s = {.storage = StorageType::csr,
           .shape = csr->shape(),
           .data = csr->data(),
           .aux = {csr->indptr(), csr->indices()}};
    } else {
      s.data = std::get<NDArray>(array);
    }
    stored.emplace_back(name, std::move(s));
  }
  save_stored(file, stored);
}

namespace {

CSRNDArray read_csr(const StoredArray& s) {
  const CSRNDArray all(s.data, s.aux[1], s.aux[0], s.shape);
  // Sums of MXNet have room for more elements than indptr counts.
  const int64_t count = all.indptr().asvector<int64_t>().back();
  if (count < 0 || count >= all.data().size()) return all;
  return CSRNDArray(all.data().slice(0, count), all.indices().slice(0, count), all.indptr(), s.shape);
}

}  // namespace

NamedAnyArrays load(const std::filesystem::path& file) {
  NamedAnyArrays arrays;
  for (auto& [name, s] : load_stored(file)) {
    try {
      AnyArray array = s.data;
      if (s.storage == StorageType::row_sparse) array = RowSparseNDArray(s.data, s.aux[0], s.shape);
      if (s.storage == StorageType::csr) array = read_csr(s);
      arrays.emplace_back(std::move(name), std::move(array));
    } catch (const Error& e) {
      throw IoError(
          fmt::format("{}: the parts of sparse array '{}' do not fit together: {}", file.string(), name, e.what()));
    }
  }
  return arrays;
}

}  // namespace kaon::sparse
