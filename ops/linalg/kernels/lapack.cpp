#include "kaon/ops/linalg/kernels/lapack.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstring>
#include <string>
#include <type_traits>

#include "kaon/engine/base/process_wide.h"
#include "kaon/engine/error.h"

namespace kaon::ops {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define KAON_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define KAON_SANITIZED 1
#endif
#endif

// The library finds its own functions before those of the program. Sanitizers have to put theirs in front.
#ifdef KAON_SANITIZED
constexpr int flags = RTLD_NOW | RTLD_LOCAL;
#else
constexpr int flags = RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND;
#endif

// What came of looking for the library, which stays open for the rest of the process.
template <class T>
struct Attempt {
  Lapack<T> functions{};
  std::string wrong;  // why there are none

  Attempt() {
    constexpr const char* file = "libopenblas.so.0";
    // The program's own, if it has it already: how many threads it uses is not for us to say.
    const bool is_shared = dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD) != nullptr;
    void* const library = dlopen(file, flags);
    const char* const reason = library ? "this one is for programs of one thread" : dlerror();
    if (!library || is_for_one_thread(library)) {
      wrong = fmt::format(
          "[LAPACK] linear algebra on the CPU needs an OpenBLAS that several threads may call, as in "
          "Debian's package libopenblas0-pthread: {}: {}",
          file, reason);
      return;
    }
    // operators use the engine's threads: one call is one thread's
    void* const set_threads = dlsym(library, "openblas_set_num_threads");
    if (set_threads && !is_shared) reinterpret_cast<void (*)(int)>(set_threads)(1);
    Lapack<T>& f = functions;
    take(library, f.gemm, "gemm"), take(library, f.trsm, "trsm"), take(library, f.potrf, "potrf");
    take(library, f.potri, "potri"), take(library, f.getrf, "getrf"), take(library, f.laswp, "laswp");
    take(library, f.geqrf, "geqrf"), take(library, f.orgqr, "orgqr"), take(library, f.syevd, "syevd");
    take(library, f.gesdd, "gesdd");
    take(library, f.geev, "geev");
  }

 private:
  // Built without threads, it does not lock its buffers: two calls at once may get the same.
  static bool is_for_one_thread(void* library) {
    void* const config = dlsym(library, "openblas_get_config");
    return config && std::strstr(reinterpret_cast<char* (*)()>(config)(), "SINGLE_THREADED") != nullptr;
  }
  template <class F>
  void take(void* library, F*& function, const char* name) {
    const std::string symbol = fmt::format("{}{}_", std::is_same_v<T, float> ? 's' : 'd', name);
    function = reinterpret_cast<F*>(dlsym(library, symbol.c_str()));
    if (!function) wrong = fmt::format("[LAPACK] the library that was loaded has no function {}", symbol);
  }
};

template <class T>
const Attempt<T>& attempt() {
  static constinit MadeOnce<const Attempt<T>> made;
  return made.get([] { return new Attempt<T>; });
}

}  // namespace

template <class T>
const Lapack<T>& Lapack<T>::get() {
  const Attempt<T>& a = attempt<T>();
  if (!a.wrong.empty()) throw StateError(a.wrong);
  return a.functions;
}

template <class T>
const Lapack<T>* Lapack<T>::find() {
  const Attempt<T>& a = attempt<T>();
  return a.wrong.empty() ? &a.functions : nullptr;
}

template struct Lapack<float>;
template struct Lapack<double>;

}  // namespace kaon::ops
