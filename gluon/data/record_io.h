// MXNet's RecordIO: files of records, with an index beside them or without, and the header of records that have labels.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kaon/engine/api.h"
#include "kaon/gluon/data/host_tensor.h"

namespace KAON_API kaon {
namespace recordio {

// A file of records, byte for byte as MXNet 1.9.1 writes it: each begins with the magic number 0xced7230a and a word of
// its length, padded to 4 bytes; one that holds the magic number itself at a multiple of 4 is written in parts. Owned
// by one thread at a time. Every function blocks and throws IoError that names file and byte; ValueError for a flag
// other than "r" and "w", StateError for a call that a file opened so does not have.
class MXRecordIO {
 public:
  MXRecordIO(const std::filesystem::path& file, std::string_view flag);  // "r", or "w", which empties the file
  ~MXRecordIO();                                                         // closes; errors of it are lost
  MXRecordIO(MXRecordIO&&) noexcept;
  MXRecordIO& operator=(MXRecordIO&&) noexcept;

  void write(std::string_view record);  // ValueError for 2^29 bytes and more
  std::optional<std::string> read();    // the next record; nothing at the end
  uint64_t tell() const;                // where the next record begins
  void seek_to(uint64_t at);            // read() goes on from the record that begins there
  void reset();                         // to the first record; a file that is written is emptied
  void close();                         // what was written is in the file; further calls throw StateError
  bool is_open() const;
  const std::filesystem::path& file() const;

 protected:
  struct State;
  State& open_for(bool writing, const char* what) const;
  std::unique_ptr<State> state_;
};

// A record's key, and the byte at which it begins.
struct IndexEntry {
  int64_t key;
  uint64_t at;
};

// The same with an index of keys: a text file of lines "key<tab>byte". Keys are whole numbers.
class MXIndexedRecordIO : public MXRecordIO {
 public:
  MXIndexedRecordIO(const std::filesystem::path& index, const std::filesystem::path& file, std::string_view flag);
  ~MXIndexedRecordIO();
  MXIndexedRecordIO(MXIndexedRecordIO&&) noexcept = default;
  MXIndexedRecordIO& operator=(MXIndexedRecordIO&&) noexcept = default;

  void write_idx(int64_t key, std::string_view record);
  std::string read_idx(int64_t key);  // throws IndexError for a key that the index lacks
  void seek(int64_t key);             // read() goes on from there
  void reset();
  void close();                       // writes the index
  std::vector<int64_t> keys() const;  // in the order of the index

 private:
  std::filesystem::path index_file_;
  std::vector<IndexEntry> index_;
};

// The lines of an index file. Blocks. Throws IoError that names file and line.
KAON_API std::vector<IndexEntry> read_index(const std::filesystem::path& index);
// Where the records of a file begin, with keys 0, 1, ...: reads their lengths alone. Blocks. Throws IoError.
KAON_API std::vector<IndexEntry> scan_index(const std::filesystem::path& file);

// What a record of an image begins with.
struct IRHeader {
  uint32_t flag = 0;  // how many labels there are, if they are no single one
  std::vector<float> label{0.0f};
  uint64_t id = 0;
  uint64_t id2 = 0;
};
// A header whose flag is 0 has one label, in its 24 bytes; else flag is the number of labels, which follow it: pack
// writes so for any number of labels but one, or where flag is not 0. `unpacked.data` views `record`. unpack throws
// IoError for a record that is too short.
KAON_API std::string pack(const IRHeader& header, std::string_view data);
struct Unpacked {
  IRHeader header;
  std::string_view data;
};
KAON_API Unpacked unpack(std::string_view record);

// The same with an image: uint8 (height, width, 3), red, green, blue, or (height, width, 1), grey, as a JPEG or PNG
// file.
struct ImageFormat {
  bool is_png = false;
  int quality = 95;     // of JPEG, 1 to 100
  int compression = 3;  // of PNG, 0 to 9
};
// Throws ShapeError, TypeError and ValueError for images and options that do not fit.
KAON_API std::string pack_img(const IRHeader& header, const gluon::data::HostTensor& image,
                              const ImageFormat& format = {});
struct UnpackedImage {
  IRHeader header;
  gluon::data::HostTensor image;
};
// flag 1: three channels; 0: one, grey. Throws IoError for a damaged record or image.
KAON_API UnpackedImage unpack_img(std::string_view record, int flag = 1);

// What im2rec does: a list of files as one file of records with an index. A line of the list is
// "key<tab>label<tab>...<tab>path", as MXNet's tool has them. Files are taken as they are, unless they are to be
// changed.
struct ListItem {
  int64_t key;
  std::vector<float> labels;
  std::string path;  // from the root
};
struct PackOptions {
  bool pack_label = false;    // all labels; without, the first
  bool skip_corrupt = false;  // files that cannot be read are left out; without, they are an IoError
  // These decode each image, and encode it in `format`.
  bool encode = false;       // even where nothing else is asked
  bool center_crop = false;  // to a square of the shorter side
  int64_t resize = 0;        // the shorter side, bilinear; 0: as it is
  int flag = 1;              // 1: three channels; 0: one, grey
  ImageFormat format{};
};
KAON_API std::vector<ListItem> read_list(const std::filesystem::path& list);  // throws IoError that names file and line
KAON_API void write_list(const std::filesystem::path& list, std::span<const ListItem> items);
// The JPEG and PNG files below `root` in order of their names. The label is the number of the first folder that they
// are in, or 0 for all without `recursive`, which looks directly in `root` only.
KAON_API std::vector<ListItem> list_images(const std::filesystem::path& root, bool recursive = true);
// Writes <prefix>.rec and <prefix>.idx, and gives the number of records. Throws IoError.
KAON_API int64_t pack_files(std::span<const ListItem> items, const std::filesystem::path& root,
                            const std::filesystem::path& prefix, const PackOptions& options = {});

}  // namespace recordio
}  // namespace kaon
