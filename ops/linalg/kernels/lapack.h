// LAPACK and BLAS on the CPU. The library is opened by the first operator that needs it, with symbols that nothing else
// in the process sees: a program may have another LAPACK of its own.
#pragma once

#include <cstddef>

#include "kaon/engine/api.h"

namespace kaon::ops {

// The functions for T, float or double, in Fortran's form: column-major matrices, arguments by address, and behind them
// the length of each text. All run on the calling thread alone, where the program does not use the library itself.
// Thread safety: any thread.
template <class T>
struct Lapack {
  using Int = int;
  using Size = size_t;

  // Opens the library. Throws StateError when there is none.
  static const Lapack& get();
  // The same, or null. Looks once.
  static const Lapack* find();

  // BLAS
  void (*gemm)(const char* transpose_a, const char* transpose_b, const Int* m, const Int* n, const Int* k,
               const T* alpha, const T* a, const Int* lda, const T* b, const Int* ldb, const T* beta, T* c,
               const Int* ldc, Size, Size);
  void (*trsm)(const char* side, const char* uplo, const char* transpose, const char* diagonal, const Int* m,
               const Int* n, const T* alpha, const T* a, const Int* lda, T* b, const Int* ldb, Size, Size, Size, Size);
  // Cholesky's factor, and the inverse from it
  void (*potrf)(const char* uplo, const Int* n, T* a, const Int* lda, Int* info, Size);
  void (*potri)(const char* uplo, const Int* n, T* a, const Int* lda, Int* info, Size);
  // L U with exchanged rows
  void (*getrf)(const Int* m, const Int* n, T* a, const Int* lda, Int* pivots, Int* info);
  void (*laswp)(const Int* n, T* a, const Int* lda, const Int* first, const Int* last, const Int* pivots,
                const Int* step);
  // Q R by reflections
  void (*geqrf)(const Int* m, const Int* n, T* a, const Int* lda, T* tau, T* work, const Int* lwork, Int* info);
  void (*orgqr)(const Int* m, const Int* n, const Int* k, T* a, const Int* lda, const T* tau, T* work, const Int* lwork,
                Int* info);
  // eigenvalues and singular values by divide and conquer
  void (*syevd)(const char* vectors, const char* uplo, const Int* n, T* a, const Int* lda, T* values, T* work,
                const Int* lwork, Int* iwork, const Int* liwork, Int* info, Size, Size);
  void (*gesdd)(const char* vectors, const Int* m, const Int* n, T* a, const Int* lda, T* values, T* u, const Int* ldu,
                T* vt, const Int* ldvt, T* work, const Int* lwork, Int* iwork, Int* info, Size);
  // eigenvalues by the QR algorithm
  void (*geev)(const char* left, const char* right, const Int* n, T* a, const Int* lda, T* real, T* imaginary, T* vl,
               const Int* ldvl, T* vr, const Int* ldvr, T* work, const Int* lwork, Int* info, Size, Size);
};

}  // namespace kaon::ops
