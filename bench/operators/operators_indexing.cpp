// Elements that are found, and elements that are moved.
#include "kaon/bench/operators/operators_parts.h"

namespace kaon::bench {

Cases searching(int64_t n) {
  const int64_t length = row_length(n);
  const Shape matrix(n / length, length);
  const NDArray x = between(-3, 3, matrix), flat = nd.reshape(x, {n}), some = nd.relu(x),
                whole = integers(0, 1000, {n}), sorted = nd.sort(between(-3, 3, {length}));
  return {
      {"topk_rows", [=] { nd.topk_both(x, {.k = 10, .dtype = DType::int64}); }},
      {"topk", [=] { nd.topk_both(flat, {.k = 10, .dtype = DType::int64}); }},
      {"sort_rows", [=] { nd.sort(x); }},
      {"sort", [=] { nd.sort(flat); }},
      {"argsort_rows", [=] { nd.argsort(x, {.dtype = DType::int64}); }},
      {"unique", [=] { nd.unique(whole); }},
      {"nonzero", [=] { nd.nonzero(some); }},
      {"searchsorted", [=] { nd.searchsorted(sorted, flat); }},
  };
}

Cases indexing(int64_t n) {
  const int64_t length = row_length(n), rows = n / length;
  const Shape matrix(rows, length);
  const NDArray x = between(-3, 3, matrix), flat = nd.reshape(x, {n}), values = between(-3, 3, matrix),
                any_row = integers(0, rows, {rows}), any_element = integers(0, n, {n}),
                along_row = integers(0, length, matrix), along_column = integers(0, rows, matrix),
                positions = nd.stack(integers(0, rows, {n}), integers(0, length, {n})), mask = any_row > rows / 2,
                any_column = integers(0, length, {length}), one_of_row = integers(0, length, {rows}),
                vector = between(-3, 3, {length}),
                permutation = nd.argsort(between(0, 1, {rows}), {.dtype = DType::int64}),
                blocks = nd.reshape(x, {rows / 5, 5, length}), batch = between(-3, 3, {n / 10, 10}),
                numbers = integers(0, 10, {n / 10});
  const std::vector<NDArray> axes{between(0, 1, {length}), between(0, 1, {rows})};
  return {
      {"take_rows", [=] { nd.take(x, any_row); }},
      {"take", [=] { nd.take(flat, any_element); }},
      {"take_along_rows", [=] { nd.take_along_axis(x, along_row, {.axis = 1}); }},
      {"take_along_columns", [=] { nd.take_along_axis(x, along_column, {.axis = 0}); }},
      {"put_along_rows", [=] { nd.put_along_axis(x, along_row, values, {.axis = 1}); }},
      {"put_along_columns", [=] { nd.put_along_axis(x, along_column, values, {.axis = 0}); }},
      {"add_along_rows", [=] { nd.put_along_axis(x, along_row, values, {.axis = 1, .reduce = Scatter::add}); }},
      {"index_add_rows", [=] { nd.index_add(x, any_row, values); }},
      {"index_add_columns", [=] { nd.index_add(x, any_column, values, {.axis = 1}); }},
      {"index_add", [=] { nd.index_add(flat, any_element, flat); }},
      {"index_copy", [=] { nd.index_copy(x, permutation, values); }},
      {"scatter_nd", [=] { nd.scatter_nd(flat, positions, matrix); }},
      {"gather_nd", [=] { nd.gather_nd(x, positions); }},
      {"boolean_mask", [=] { nd.boolean_mask(x, mask); }},
      {"pick", [=] { nd.pick(x, one_of_row); }},
      {"one_hot", [=] { nd.one_hot(numbers, 10); }},
      {"roll", [=] { nd.roll(x, Shape(3), Shape(1)); }},
      {"roll_flat", [=] { nd.roll(x, Shape(7)); }},
      {"tril", [=] { nd.tril(x); }},
      {"diag", [=] { nd.diag(vector); }},
      {"makediag", [=] { nd.linalg_makediag(batch); }},
      {"pad",
       [=] {
         nd.pad(x, {.pad_width = {1, 1, 2, 2}});
       }},
      {"flip_rows", [=] { nd.flip(x, Shape(1)); }},
      {"flip_columns", [=] { nd.flip(x, Shape(0)); }},
      {"rot90", [=] { nd.rot90(x); }},
      {"meshgrid", [=] { nd.meshgrid(axes); }},
      {"repeat", [=] { nd.repeat(x, 2, 1); }},
      {"tile",
       [=] {
         nd.tile(x, {2, 2});
       }},
      {"transpose", [=] { nd._copy(nd.transpose(x)); }},
      {"permute",
       [=] {
         nd._copy(nd.transpose(blocks, {2, 0, 1}));
       }},
      {"concat", [=] { nd.concat(x, values); }},
      {"stack", [=] { nd.stack(op::Stack{.axis = 2}, x, values); }},
      {"slice_step",
       [=] {
         nd.slice(x, {0, 1}, {rows, length}, {1, 2});
       }},
      {"diff", [=] { nd.diff(x); }},
      {"broadcast_to", [=] { nd.broadcast_to(vector, matrix); }},
  };
}

}  // namespace kaon::bench
