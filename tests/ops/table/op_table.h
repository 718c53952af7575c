// The test table: rows of every operator, by family. CONTRIBUTING.md says what a row has to have.
#pragma once

#include <set>
#include <string>

#include "kaon/tests/support/check_op.h"

namespace kaon::test {

// The families: f(function that makes the rows, title of the test case, its tags beside [op_table]). What the list has
// is declared here, is part of all_rows() and is checked by check_ops in a case of its own.
#define KAON_OP_FAMILIES(f)                                                                                            \
  f(elementwise_rows, "elementwise operators", "") f(reduce_rows, "reductions", "")                                    \
      f(movement_rows, "shapes and movement", "") f(rearrange_rows,                                                    \
                                                    "cutting, rearranging, scattering, sums up to each element", "")   \
          f(index_rows, "indexing and matrix products", "") f(search_rows, "search", "") f(                            \
              init_rows, "creation of arrays", "") f(nn_rows, "dense, activations, softmax and outputs", "")           \
              f(convolution_rows, "convolution", "") f(deconvolution_rows, "deconvolution", "") f(                     \
                  pooling_rows, "pooling", "") f(channels_last_pooling_rows, "pooling with the channels last", "")     \
                  f(norm_rows, "batch and layer normalisation", "") f(composed_rows, "operators made of others", "")   \
                      f(resize_rows, "resizing", "") f(spatial_rows, "sampling and deformable windows", "") f(         \
                          attention_rows, "attention", "") f(rnn_rows, "recurrent layers", "")                         \
                          f(detection_rows, "boxes", "") f(multibox_rows, "anchors", "") f(region_rows,                \
                                                                                           "regions of interest", "")  \
                              f(pooled_region_rows, "regions with parts, and proposals", "") f(quant_rows, "int8", "") \
                                  f(numeric_rows, "numeric functions", "") f(statistics_rows, "statistics", "")        \
                                      f(signal_rows, "Fourier transforms and the like", "")                            \
                                          f(linalg_rows, "linear algebra", "[arithmetic]")                             \
                                              f(random_rows, "random numbers", "")                                     \
                                                  f(density_rows, "densities, and the draws of NumPy's front end", "") \
                                                      f(image_rows, "images as files have them", "")                   \
                                                          f(optim_rows, "optimizer updates", "")                       \
                                                              f(numpy_rows, "NumPy's front end", "")                   \
                                                                  f(analysis_rows, "NumPy's functions of numbers", "")

#define KAON_DECLARE_ROWS(rows, title, tags) Rows rows();
KAON_OP_FAMILIES(KAON_DECLARE_ROWS)
#undef KAON_DECLARE_ROWS

Rows all_rows();

// The names in a that are not in b.
std::set<std::string> minus(const std::set<std::string>& a, const std::set<std::string>& b);

}  // namespace kaon::test
