// Fuzz target: files of records, their indices and lists. Any bytes are read, or give an IoError; what was read of
// records is written as the same bytes.
#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <string_view>

#include "kaon/engine/error.h"
#include "kaon/gluon/data/record_io.h"
#include "kaon/tests/fuzz/require.h"

using namespace kaon;

namespace {

// A file in memory, by the name that the system has for it.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes) : descriptor_(::memfd_create("records", 0)) {
    test::require(::write(descriptor_, bytes.data(), bytes.size()) == ssize_t(bytes.size()), "memory for a file");
  }
  ~MemoryFile() { ::close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  std::string name() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

template <class F>
void try_to(F fn) {
  try {
    fn();
  } catch (const IoError&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const MemoryFile file(std::string_view(reinterpret_cast<const char*>(data), size));
  std::vector<std::string> records;
  bool is_whole = false;
  try_to([&] {
    recordio::MXRecordIO in(file.name(), "r");
    while (auto record = in.read()) records.push_back(std::move(*record));
    is_whole = true;
  });
  try_to([&] {
    const auto index = recordio::scan_index(file.name());
    test::require(!is_whole || index.size() == records.size(), "a scan finds the records that are read");
  });
  for (const std::string& record : records) {
    try_to([&] {
      const auto unpacked = recordio::unpack(record);
      test::require(recordio::unpack(recordio::pack(unpacked.header, unpacked.data)).data == unpacked.data,
                    "what is unpacked is packed again");
    });
  }
  const MemoryFile again("");
  {
    recordio::MXRecordIO out(again.name(), "w");
    for (const std::string& record : records) out.write(record);
  }
  recordio::MXRecordIO in(again.name(), "r");
  for (const std::string& record : records) test::require(in.read() == record, "what is written is read");
  test::require(!in.read(), "and nothing else");
  try_to([&] { recordio::read_index(file.name()); });
  try_to([&] { recordio::read_list(file.name()); });
  return 0;
}
