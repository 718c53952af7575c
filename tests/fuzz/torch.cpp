// Fuzz target: PyTorch's archives, and so pickles. The input is the whole archive, or after a first byte of 'p' the
// pickle of one with a storage '0' of 64 bytes: a change of a byte then needs no other checks to be met. Any bytes give
// arrays or an IoError, and these can be read.
#include <string>
#include <string_view>

#include "kaon/interchange/torch_files.h"
#include "kaon/tests/fuzz/require.h"

using namespace kaon;

namespace {

std::string number(size_t n, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i, n >>= 8) text += char(n);
  return text;
}

// An archive of entries that are stored.
std::string archive_of(std::initializer_list<std::pair<std::string, std::string_view>> entries) {
  std::string all, directory;
  for (const auto& [name, contents] : entries) {
    const std::string common = number(20, 2) + number(0, 12) + number(contents.size(), 4) + number(contents.size(), 4) +
                               number(name.size(), 2) + number(0, 2);
    directory += "PK\x01\x02" + number(20, 2) + common + number(0, 10) + number(all.size(), 4) + name;
    all += "PK\x03\x04" + common + name + std::string(contents);
  }
  const std::string end = "PK\x05\x06" + number(0, 4) + number(entries.size(), 2) + number(entries.size(), 2) +
                          number(directory.size(), 4) + number(all.size(), 4) + number(0, 2);
  return all + directory + end;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  NamedArrays loaded;
  try {
    if (bytes.starts_with('p')) {
      const std::string storage(64, '\x3f');
      loaded = torch_files::load_from_bytes(archive_of({{"a/data.pkl", bytes.substr(1)}, {"a/data/0", storage}}));
    } else {
      loaded = torch_files::load_from_bytes(bytes);
    }
  } catch (const IoError&) {
    return 0;
  }
  test::require(nd_file::save_to_bytes(loaded).size() > 0, "arrays that were read have values");
  return 0;
}
