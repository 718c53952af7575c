// The part of NCCL's C interface that Kaon calls, of NCCL 2.14 and later: its library is opened while the program runs,
// so that Kaon is built without it. Names and values are NCCL's.
#pragma once

#include <cstddef>

extern "C" {

struct ncclComm;
using ncclComm_t = ncclComm*;
struct CUstream_st;

struct ncclUniqueId {
  char internal[128];
};

enum ncclResult_t : int {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7,
};

enum ncclDataType_t : int {
  ncclInt8 = 0,
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclUint32 = 3,
  ncclInt64 = 4,
  ncclUint64 = 5,
  ncclFloat16 = 6,
  ncclFloat32 = 7,
  ncclFloat64 = 8,
  ncclBfloat16 = 9,
};

enum ncclRedOp_t : int { ncclSum = 0, ncclProd = 1, ncclMax = 2, ncclMin = 3 };

// As of version 2.14: a later NCCL gives the fields that it knows beyond these their defaults.
struct ncclConfig_t {
  size_t size = sizeof(ncclConfig_t);
  unsigned magic = 0xcafebeef;
  unsigned version = 21400;
  int blocking = 1;
};

}  // extern "C"

namespace kaon::comm {

// Each function of the interface, as FUNCTION(name, parameters).
#define KAON_NCCL_FUNCTIONS(FUNCTION)                                                                                \
  FUNCTION(ncclGetVersion, (int* version))                                                                           \
  FUNCTION(ncclGetUniqueId, (ncclUniqueId * id))                                                                     \
  FUNCTION(ncclCommInitRankConfig, (ncclComm_t * comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config))  \
  FUNCTION(ncclCommFinalize, (ncclComm_t comm))                                                                      \
  FUNCTION(ncclCommDestroy, (ncclComm_t comm))                                                                       \
  FUNCTION(ncclCommAbort, (ncclComm_t comm))                                                                         \
  FUNCTION(ncclCommGetAsyncError, (ncclComm_t comm, ncclResult_t * error))                                           \
  FUNCTION(ncclAllReduce, (const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op,             \
                           ncclComm_t comm, CUstream_st* stream))                                                    \
  FUNCTION(ncclReduce, (const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op, int root,      \
                        ncclComm_t comm, CUstream_st* stream))                                                       \
  FUNCTION(ncclReduceScatter, (const void* in, void* out, size_t out_count, ncclDataType_t type, ncclRedOp_t op,     \
                               ncclComm_t comm, CUstream_st* stream))                                                \
  FUNCTION(ncclAllGather,                                                                                            \
           (const void* in, void* out, size_t in_count, ncclDataType_t type, ncclComm_t comm, CUstream_st* stream))  \
  FUNCTION(ncclBroadcast, (const void* in, void* out, size_t count, ncclDataType_t type, int root, ncclComm_t comm,  \
                           CUstream_st* stream))                                                                     \
  FUNCTION(ncclSend,                                                                                                 \
           (const void* in, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, CUstream_st* stream))      \
  FUNCTION(ncclRecv, (void* out, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, CUstream_st* stream)) \
  FUNCTION(ncclGroupStart, ())                                                                                       \
  FUNCTION(ncclGroupEnd, ())

}  // namespace kaon::comm
