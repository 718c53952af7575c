// CUDA's libraries, each opened by the first operator that needs it: they take hundreds of megabytes, and a machine may
// lack one of them and still run the other operators.
#pragma once

#include <initializer_list>
#include <string>

namespace kaon::cuda {

// A library, open for the rest of the process. Thread safety: any thread.
class SharedLibrary {
 public:
  // Opens the first of these files that can be; `purpose`, in the plural, is for the message. Throws DeviceError.
  SharedLibrary(const char* purpose, std::initializer_list<std::string> files);

  // A function's address, convertible to any function pointer.
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
