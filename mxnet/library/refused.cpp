// Functions that Kaon does not serve: each refuses by its name.
#include "kaon/mxnet/c_api.h"
#include "kaon/mxnet/handle/guard.h"

using kaon::mxnet::guard;
using kaon::mxnet::refuse;

// The plugin of old functions; no name of one is listed.
int MXFuncDescribe(FunctionHandle, uint32_t*, uint32_t*, uint32_t*, int*) {
  return guard([] { refuse("MXFuncDescribe", "no function of this kind is listed"); });
}
int MXFuncGetInfo(FunctionHandle, const char**, const char**, uint32_t*, const char***, const char***, const char***,
                  const char**) {
  return guard([] { refuse("MXFuncGetInfo", "no function of this kind is listed"); });
}
int MXFuncInvokeEx(FunctionHandle, NDArrayHandle*, float*, NDArrayHandle*, int, char**, char**) {
  return guard([] { refuse("MXFuncInvokeEx", "no function of this kind is listed"); });
}

// Libraries with operators of their own, TVM's operators and the functions that MXNet's NumPy calls by name.
int MXLoadLib(const char*, unsigned) {
  return guard(
      [] { refuse("MXLoadLib", "libraries and functions for MXNet's own binary interface do not run on Kaon"); });
}
int MXLoadTVMOp(const char*) {
  return guard(
      [] { refuse("MXLoadTVMOp", "libraries and functions for MXNet's own binary interface do not run on Kaon"); });
}
int MXNetFuncCall(MXNetFunctionHandle, MXNetValue*, int*, int, MXNetValue*, int*) {
  return guard(
      [] { refuse("MXNetFuncCall", "libraries and functions for MXNet's own binary interface do not run on Kaon"); });
}
int MXNetFuncFree(MXNetFunctionHandle) {
  return guard(
      [] { refuse("MXNetFuncFree", "libraries and functions for MXNet's own binary interface do not run on Kaon"); });
}
int MXNetObjectFree(MXNetObjectHandle) {
  return guard(
      [] { refuse("MXNetObjectFree", "libraries and functions for MXNet's own binary interface do not run on Kaon"); });
}

// Rewriting of symbols by backends and for fewer bits.
int MXBuildSubgraphByOpNames(SymbolHandle, const char*, const uint32_t, const char**, SymbolHandle*) {
  return guard([] { refuse("MXBuildSubgraphByOpNames", "Kaon does not rewrite symbols"); });
}
int MXGenBackendSubgraph(SymbolHandle, const char*, SymbolHandle*) {
  return guard([] { refuse("MXGenBackendSubgraph", "Kaon does not rewrite symbols"); });
}
int MXOptimizeForBackend(SymbolHandle, const char*, const int, SymbolHandle*, const uint32_t, NDArrayHandle*,
                         const uint32_t, NDArrayHandle*, const uint32_t, const char**, const char**, const uint32_t,
                         const char**, const int64_t*, const uint32_t*, const uint32_t, const char**, const int*,
                         const uint32_t, const char**, const int*, bool, int*, NDArrayHandle**, char***, int*,
                         NDArrayHandle**, char***) {
  return guard([] { refuse("MXOptimizeForBackend", "Kaon does not rewrite symbols"); });
}
int MXSetSubgraphPropertyOpNames(const char*, const uint32_t, const char**) {
  return guard([] { refuse("MXSetSubgraphPropertyOpNames", "Kaon does not rewrite symbols"); });
}
int MXSetSubgraphPropertyOpNamesV2(const char*, const uint32_t, const char**) {
  return guard([] { refuse("MXSetSubgraphPropertyOpNamesV2", "Kaon does not rewrite symbols"); });
}
int MXRemoveSubgraphPropertyOpNames(const char*) {
  return guard([] { refuse("MXRemoveSubgraphPropertyOpNames", "Kaon does not rewrite symbols"); });
}
int MXRemoveSubgraphPropertyOpNamesV2(const char*) {
  return guard([] { refuse("MXRemoveSubgraphPropertyOpNamesV2", "Kaon does not rewrite symbols"); });
}
int MXQuantizeSymbol(SymbolHandle, SymbolHandle*, const int*, const uint32_t, const char**, const uint32_t,
                     const char**, const uint32_t, const char**, const char*, const bool, const char*, const char*,
                     uint32_t*, const char***) {
  return guard([] { refuse("MXQuantizeSymbol", "Kaon does not rewrite symbols"); });
}
int MXSetCalibTableToQuantizedSymbol(SymbolHandle, const uint32_t, const char**, const float*, const float*,
                                     SymbolHandle*) {
  return guard([] { refuse("MXSetCalibTableToQuantizedSymbol", "Kaon does not rewrite symbols"); });
}
int MXSymbolGrad(SymbolHandle, uint32_t, const char**, SymbolHandle*) {
  return guard([] { refuse("MXSymbolGrad", "Kaon does not rewrite symbols"); });
}

// CUDA source of the program.
int MXRtcCudaModuleCreate(const char*, int, const char**, int, const char**, CudaModuleHandle*) {
  return guard([] { refuse("MXRtcCudaModuleCreate", "Kaon does not compile CUDA source of programs"); });
}
int MXRtcCudaModuleFree(CudaModuleHandle) {
  return guard([] { refuse("MXRtcCudaModuleFree", "Kaon does not compile CUDA source of programs"); });
}
int MXRtcCudaKernelCreate(CudaModuleHandle, const char*, int, int*, int*, int*, CudaKernelHandle*) {
  return guard([] { refuse("MXRtcCudaKernelCreate", "Kaon does not compile CUDA source of programs"); });
}
int MXRtcCudaKernelFree(CudaKernelHandle) {
  return guard([] { refuse("MXRtcCudaKernelFree", "Kaon does not compile CUDA source of programs"); });
}
int MXRtcCudaKernelCall(CudaKernelHandle, int, void**, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t,
                        uint32_t) {
  return guard([] { refuse("MXRtcCudaKernelCall", "Kaon does not compile CUDA source of programs"); });
}
