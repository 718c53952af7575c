// Calls with row_sparse and csr arrays.
#pragma once

#include "kaon/mxnet/call/call.h"

namespace kaon::mxnet {

// Whether a call has to do with sparse arrays, or makes one.
bool is_sparse_call(const OperatorInfo& info, Texts texts, Arrays inputs, Arrays outputs);

// The visible results, dense or in the storage that MXNet infers. Where Kaon has no function for sparse arrays, the
// call is made with dense ones, as MXNet's fallback does. Blocks where a result is sparse.
Results call_sparse(const OperatorInfo& info, Texts texts, Arrays inputs, Arrays outputs);

// Writes a result to an array of any storage.
void put_any_result(ArrayObject& output, ArrayObject& result);

}  // namespace kaon::mxnet
