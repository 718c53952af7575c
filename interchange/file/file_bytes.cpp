#include "kaon/interchange/file/file_bytes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <mutex>
#include <optional>

#include "kaon/engine/error.h"
#include "kaon/ops/array/array_node.h"
#include "kaon/ops/array/checked_size.h"

namespace kaon::interchange {

struct FileBytes::Node {
  std::string name;
  char* data = nullptr;
  uint64_t size = 0;
  bool is_mapped = false;
  std::string copy;
  // The ranges that arrays were made over, by their first byte; those that met are one, which is shared.
  struct Range {
    uint64_t end;
    bool shared;
  };
  std::mutex mutex;
  std::map<uint64_t, Range> given;

  ~Node() {
    if (is_mapped) ::munmap(data, size);
  }

  void give(uint64_t begin, uint64_t end) {
    std::lock_guard lock(mutex);
    auto it = given.lower_bound(begin);
    if (it != given.begin() && std::prev(it)->second.end > begin) --it;
    bool shared = false;
    uint64_t from = begin, to = end;
    while (it != given.end() && it->first < end) {
      shared = true;
      from = std::min(from, it->first);
      to = std::max(to, it->second.end);
      it = given.erase(it);
    }
    given[from] = {to, shared};
  }

  // An array over these bytes is gone. Whole pages of its own leave the memory of the process; the bytes stay in the
  // file, and what the program wrote there nobody can see any more.
  void take_back(uint64_t begin, uint64_t end) {
    static const uint64_t page = uint64_t(::sysconf(_SC_PAGESIZE));
    if (!is_mapped || end - begin < 4 * page) return;
    std::lock_guard lock(mutex);
    const auto it = given.find(begin);
    if (it == given.end() || it->second.end != end || it->second.shared) return;
    const uint64_t first = (begin + page - 1) / page * page, last = end / page * page;
    if (first < last) ::madvise(data + first, last - first, MADV_DONTNEED);
  }
};

FileBytes FileBytes::map(const std::filesystem::path& file) {
  const auto fail = [&](const char* what) {
    throw IoError(fmt::format("{}: {}: {}", file.string(), what, std::strerror(errno)));
  };
  struct Descriptor {
    int number;
    ~Descriptor() {
      if (number >= 0) ::close(number);
    }
  } descriptor{::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};  // of a pipe too, open() returns
  if (descriptor.number < 0) fail("cannot open");
  struct stat status {};
  if (::fstat(descriptor.number, &status) != 0) fail("cannot look at it");
  if (!S_ISREG(status.st_mode)) throw IoError(fmt::format("{}: expected a regular file", file.string()));
  auto node = std::make_shared<Node>();
  node->name = file.string();
  if (status.st_size > 0) {
    // private and writable: arrays may be written in place, which copies the page
    void* data = ::mmap(nullptr, size_t(status.st_size), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE,
                        descriptor.number, 0);
    if (data == MAP_FAILED) fail("cannot map");
    node->data = static_cast<char*>(data);
    node->size = uint64_t(status.st_size);
    node->is_mapped = true;
  }
  return FileBytes(std::move(node));
}

FileBytes FileBytes::copy_of(std::string_view bytes, std::string name) {
  return owning(std::string(bytes), std::move(name));
}

FileBytes FileBytes::owning(std::string bytes, std::string name) {
  auto node = std::make_shared<Node>();
  node->name = std::move(name);
  node->copy = std::move(bytes);
  node->data = node->copy.data();
  node->size = node->copy.size();
  return FileBytes(std::move(node));
}

const std::string& FileBytes::name() const { return node_->name; }
uint64_t FileBytes::size() const { return node_->size; }
std::string_view FileBytes::view() const { return {node_->data, size_t(node_->size)}; }

void FileBytes::fail(uint64_t at, std::string_view expected, std::string_view found) const {
  throw IoError(fmt::format("{}: at byte {}: expected {}, found {}", name(), at, expected, found));
}

std::string_view FileBytes::part(uint64_t at, uint64_t bytes, std::string_view what) const {
  if (at > size() || bytes > size() - at) {
    fail(at, fmt::format("{} ({} bytes)", what, bytes),
         at > size() ? fmt::format("the end of the file at byte {}", size())
                     : fmt::format("only {} bytes up to the end", size() - at));
  }
  return view().substr(size_t(at), size_t(bytes));
}

NDArray FileBytes::array(uint64_t at, const Shape& shape, DType dtype, std::string_view what) const {
  const uint64_t bytes = bytes_of(*this, at, shape, dtype);
  part(at, bytes, what);
  return array_over(node_->data + at, shape, dtype, [&] {
    node_->give(at, at + bytes);
    return [node = node_, at, bytes] { node->take_back(at, at + bytes); };
  });
}

// Kernels read whole vectors: of elements that begin inside of a cache line each takes two of them, by which the
// product with a matrix in a core's caches takes up to half as long again. Larger arrays wait for memory.
static bool is_fast_in_place(const void* data, size_t bytes, DType dtype) {
  constexpr size_t cache_line = 64, copied_at_most = 4 << 20;
  const uintptr_t begin = reinterpret_cast<uintptr_t>(data);
  return begin % cache_line == 0 || (begin % size_of(dtype) == 0 && bytes > copied_at_most);
}

NDArray array_over(char* data, const Shape& shape, DType dtype, engine::FunctionRef<std::function<void()>()> keep) {
  const size_t bytes = size_t(shape.size()) * size_of(dtype);
  if (bytes == 0) return NDArray::empty(shape, dtype, cpu());
  std::optional<NDArray> copy;
  if (!is_fast_in_place(data, bytes, dtype)) {
    copy = NDArray::empty(shape, dtype, cpu());
    data = static_cast<char*>(std::memcpy(copy->node().data(), data, bytes));  // nobody else knows it yet
  }
  if (dtype == DType::boolean) {  // any other byte is no bool in C++
    const auto is_other = [](char b) { return uint8_t(b) > 1; };
    for (char* b = std::find_if(data, data + bytes, is_other); b != data + bytes;
         b = std::find_if(b, data + bytes, is_other))
      *b = 1;
  }
  if (copy) return *copy;
  NDArray array = NDArray::from_blob(data, shape, dtype, keep(), cpu());
  array.node().buffer->is_programs.store(false, std::memory_order_relaxed);
  return array;
}

uint64_t bytes_of(const FileBytes& file, uint64_t at, const Shape& shape, DType dtype) {
  if (std::any_of(shape.begin(), shape.end(), [](int64_t d) { return d < 0; })) {
    file.fail(at, "dimensions of 0 or more", shape.str());
  }
  if (!ops::has_countable_bytes(shape, dtype)) file.fail(at, "an array of less than 2^63 bytes", shape.str());
  return uint64_t(shape.size()) * size_of(dtype);
}

NDArray view_of(const NDArray& array, uint64_t first_byte, const Shape& shape, DType dtype) {
  const ops::ArrayNode& node = array.node();
  return NDArray(engine::IntrusivePtr<ops::ArrayNode>(
      new ops::ArrayNode(node.buffer, shape, dtype, node.offset + size_t(first_byte))));
}

std::string_view ByteReader::line(std::string_view what) {
  const std::string_view rest = file_.part(at_, remaining(), what);
  const size_t length = rest.find('\n');
  if (length == std::string_view::npos) fail(at_, fmt::format("{}, ended by a new line", what), "no new line");
  at_ += length + 1;
  return rest.substr(0, length);
}

void ByteReader::fail_short(uint64_t bytes, std::string_view what) const {
  fail(at_, fmt::format("{} ({} bytes)", what, bytes), fmt::format("only {} bytes up to the end", remaining()));
}

}  // namespace kaon::interchange
