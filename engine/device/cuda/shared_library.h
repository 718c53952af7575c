// Libraries of CUDA's that are opened by the first operator that needs one: they take hundreds of megabytes, and a
// machine may lack one of them and still do the rest.
#pragma once

#include <initializer_list>
#include <string>

namespace kaon::cuda {

// An open library, for good. Thread safety: any thread.
class SharedLibrary {
 public:
  // The first of these files that can be opened; `purpose` is what needs it, in the plural. Throws DeviceError.
  SharedLibrary(const char* purpose, std::initializer_list<std::string> files);

  // A function's address, which becomes the type of pointer that it is given to.
  class Function {
   public:
    explicit Function(void* address) : address_(address) {}
    template <class F>
    operator F*() const {
      return reinterpret_cast<F*>(address_);
    }

   private:
    void* address_;
  };
  // Throws DeviceError when the library does not have it.
  Function function(const char* name) const;

 private:
  std::string file_;
  void* library_ = nullptr;
};

}  // namespace kaon::cuda
