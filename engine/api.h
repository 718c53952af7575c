// KAON_API: what a shared libkaon.so exports. Public headers open their namespace with it, which is enough for classes
// and for g++; clang takes the visibility of a function or variable from its own declaration, so these have it as well.
#pragma once

#ifdef KAON_SHARED  // defined for the library's sources and for programs that link with it
#define KAON_API [[gnu::visibility("default")]]
#else
#define KAON_API
#endif

// Before a function that reads a variable of its thread. Under clang it is a call: inline, clang keeps the address of
// one thread's variable across the suspension of a coroutine, which another thread may resume.
#ifdef __clang__
#define KAON_THREAD_LOCAL_READ [[gnu::noinline]]
#else
#define KAON_THREAD_LOCAL_READ
#endif

// What programs need is in namespace kaon, the operators' structs in kaon::op. What Kaon's own sources share is in a
// namespace of its layer, which sees those of the layers below; kaon::cuda holds what only compiles with CUDA.
namespace KAON_API kaon {
namespace engine {}
namespace ops {
using namespace engine;
}
namespace op {
using namespace ops;
}
namespace graph {
using namespace engine;
using namespace ops;
}  // namespace graph
namespace cuda {
using namespace engine;
using namespace ops;
}  // namespace cuda
}  // namespace kaon
