// RecordIO: the bytes are MXNet's. tests/data/recordio has the script that wrote the files.
#include "kaon/gluon/data/record_io.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <sstream>

#include "kaon/gluon/data/data_loader.h"
#include "kaon/gluon/data/vision.h"
#include "kaon/ops/image_file/image_file.h"
#include "kaon/tests/support/files.h"

namespace record_io_test {

using namespace kaon;
using namespace kaon::gluon::data;
using namespace kaon::recordio;
using namespace kaon::test;
using Catch::Matchers::Contains;

namespace {

fs::path golden(const std::string& name) { return data_file("recordio/" + name); }

std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; hex != "-" && i < hex.size(); i += 2) bytes += char(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

// Key and bytes of each record that MXNet wrote.
std::vector<std::pair<int64_t, std::string>> records() {
  std::vector<std::pair<int64_t, std::string>> all;
  std::ifstream in(golden("records.txt"));
  for (std::string key, hex; in >> key >> hex;) all.emplace_back(std::stoll(key), from_hex(hex));
  return all;
}

template <class F>
std::string message(F&& f) {
  try {
    f();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "nothing thrown";
}

void write_bytes(const fs::path& file, const std::string& bytes) { std::ofstream(file, std::ios::binary) << bytes; }

}  // namespace

TEST_CASE("recordio: reads what MXNet writes") {
  const auto expected = records();
  REQUIRE(expected.size() == 21);
  MXRecordIO in(golden("records.rec"), "r");
  for (const auto& [key, bytes] : expected) CHECK(in.read() == bytes);
  CHECK_FALSE(in.read());
  CHECK_FALSE(in.read());
  in.reset();
  CHECK(in.read() == expected[0].second);
  const uint64_t second = in.tell();
  CHECK(in.read() == expected[1].second);
  in.seek_to(second);
  CHECK(in.read() == expected[1].second);
  in.seek_to(second + 4);  // inside the record
  CHECK_THROWS_AS(in.read(), IoError);

  MXIndexedRecordIO indexed(golden("records.idx"), golden("records.rec"), "r");
  CHECK(indexed.keys().size() == expected.size());
  CHECK(indexed.keys()[1] == -2);
  for (size_t i = expected.size(); i-- > 0;) CHECK(indexed.read_idx(expected[i].first) == expected[i].second);
  indexed.seek(1);
  CHECK(indexed.read() == expected[2].second);
  CHECK(indexed.read() == expected[3].second);
}

TEST_CASE("recordio: writes the bytes that MXNet writes") {
  ScratchFolder folder;
  MXIndexedRecordIO out(folder / "a.idx", folder / "a.rec", "w");
  for (const auto& [key, bytes] : records()) out.write_idx(key, bytes);
  out.close();
  CHECK(bytes_of(folder / "a.rec") == bytes_of(golden("records.rec")));
  CHECK(bytes_of(folder / "a.idx") == bytes_of(golden("records.idx")));

  {
    MXRecordIO plain(folder / "b.rec", "w");
    plain.write("lost");
    plain.reset();
    for (const auto& r : records()) plain.write(r.second);
  }
  CHECK(bytes_of(folder / "b.rec") == bytes_of(golden("records.rec")));
  const auto scanned = scan_index(folder / "b.rec"), listed = read_index(golden("records.idx"));
  REQUIRE(scanned.size() == listed.size());
  for (size_t i = 0; i < listed.size(); ++i) {
    CHECK(scanned[i].at == listed[i].at);
    CHECK(scanned[i].key == int64_t(i));
  }
}

TEST_CASE("recordio: headers of records are MXNet's, with one label and with lists") {
  ScratchFolder folder;
  MXIndexedRecordIO in(golden("headers.idx"), golden("headers.rec"), "r");
  std::ifstream text(golden("headers.txt"));
  int64_t count = 0;
  uint64_t flag, id, id2;
  for (std::string labels, hex; text >> flag >> id >> id2 >> labels >> hex; ++count) {
    const std::string record = in.read_idx(count);
    const Unpacked u = unpack(record);
    CHECK(u.header.flag == flag);
    CHECK(u.header.id == id);
    CHECK(u.header.id2 == id2);
    std::vector<float> expected;
    std::istringstream list(labels);
    for (std::string one; std::getline(list, one, ',');) expected.push_back(std::stof(one));
    CHECK(u.header.label == expected);
    CHECK(u.data == from_hex(hex));
    CHECK(pack(u.header, u.data) == record);
  }
  CHECK(count == 4);
  CHECK(unpack(pack({.label = {1, 2}}, "ab")).header.flag == 2);
  CHECK(message([] { unpack(std::string(23, 'a')); }) == "[recordio] unpack: expected a header of 24 bytes, got 23");
  CHECK(message([] { unpack(std::string("\x02\0\0\0", 4) + std::string(24, '\0')); }) ==
        "[recordio] unpack: expected 2 labels of 4 bytes, got 4 bytes");
}

TEST_CASE("im2rec: lists and files of records are those of MXNet's tool") {
  ScratchFolder folder;
  const std::vector<ListItem> items = read_list(golden("images.lst"));
  REQUIRE(items.size() == 4);
  CHECK(items[2].labels == std::vector<float>{2, 2.5f, -1});
  write_list(folder / "again.lst", items);
  CHECK(bytes_of(folder / "again.lst") == bytes_of(golden("images.lst")));
  CHECK(pack_files(items, data_file("images"), folder / "again", {.pack_label = true}) == 4);
  CHECK(bytes_of(folder / "again.rec") == bytes_of(golden("images.rec")));
  CHECK(bytes_of(folder / "again.idx") == bytes_of(golden("images.idx")));

  fs::create_directories(folder / "b");
  fs::create_directories(folder / "c");
  fs::create_directories(folder / "a");
  for (const char* name : {"b/2.PNG", "b/10.jpeg", "c/x.jpg", "a/no.txt"}) write_bytes(folder / name, "image");
  const auto listed = list_images(folder / ".");
  REQUIRE(listed.size() == 3);
  CHECK(listed[0].path == "b/10.jpeg");
  CHECK(listed[1].path == "b/2.PNG");
  CHECK(listed[2].path == "c/x.jpg");
  CHECK(listed[1].labels == std::vector<float>{0});
  CHECK(listed[2].labels == std::vector<float>{1});
  CHECK(listed[2].key == 2);
  CHECK(list_images(folder / "b", false).size() == 2);

  std::vector<ListItem> missing{{5, {1}, "c/x.jpg"}, {7, {2}, "gone.jpg"}};
  CHECK_THAT(message([&] { pack_files(missing, folder / ".", folder / "m"); }),
             Contains("[im2rec] key 7: ") && Contains("gone.jpg"));
  CHECK(pack_files(missing, folder / ".", folder / "m", {.skip_corrupt = true}) == 1);
  CHECK_THAT(message([&] { list_images(folder / "nowhere"); }), Contains("[im2rec]") && Contains("nowhere"));
}

TEST_CASE("recordio: datasets of records, with and without an index") {
  ScratchFolder folder;
  fs::copy(golden("records.rec"), folder / "alone.rec");
  for (const fs::path& file : {golden("records.rec"), folder / "alone.rec"}) {
    RecordFileDataset d(file);
    const auto expected = records();
    REQUIRE(d.size() == int64_t(expected.size()));
    for (int64_t i = 0; i < d.size(); ++i) {
      const HostTensor bytes = d.get(i).data;
      CHECK(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.bytes()) == expected[size_t(i)].second);
    }
  }
  // the order is that of the index
  write_bytes(folder / "alone.idx", "9\t12\n1\t0\n");
  RecordFileDataset d(folder / "alone.rec");
  REQUIRE(d.size() == 2);
  CHECK(d.get(0).data.size() == 2);
  CHECK(d.get(1).data.size() == 1);
}

#ifdef KAON_IMAGES
TEST_CASE("recordio: images are packed as PNG and JPEG, cut and resized") {
  for (int channels : {1, 3}) {
    HostTensor image({30, 50, channels}, DType::uint8);
    for (int64_t i = 0; i < image.size(); ++i)
      image.mutable_as<uint8_t>()[i] = uint8_t(128 + 100 * std::sin(double(i) / 40));
    const NDArray pixels = image.to_array();
    const UnpackedImage png = unpack_img(pack_img({.label = {1, 2}}, image, {.is_png = true}), channels == 3);
    CHECK(png.header.label == std::vector<float>{1, 2});
    CHECK(png.image.to_array().asvector<uint8_t>() == pixels.asvector<uint8_t>());
    const std::string fine = pack_img({}, image, {.quality = 95}), coarse = pack_img({}, image, {.quality = 10});
    CHECK(fine.size() > coarse.size());
    const HostTensor jpeg = unpack_img(fine, channels == 3).image;
    REQUIRE(jpeg.shape() == image.shape());
    double sum = 0;
    for (int64_t i = 0; i < image.size(); ++i) sum += std::abs(jpeg.as<uint8_t>()[i] - image.as<uint8_t>()[i]);
    CHECK(sum / double(image.size()) < (channels == 3 ? 12 : 2));  // colours are stored at half the size
  }
  CHECK(message([] {
          pack_img({}, HostTensor({2, 2, 2}, DType::uint8));
        }) == "[pack_img] expected an image (height, width, 1 or 3), got shape (2, 2, 2)");
  CHECK(message([] {
          pack_img({}, HostTensor({2, 2, 1}, DType::uint8), {.quality = 0});
        }) == "[pack_img] quality: expected 1 to 100, got 0");
  CHECK(message([] {
          pack_img({}, HostTensor({2, 0, 1}, DType::uint8));
        }) == "[encode_image] a JPEG file has sides of 1 to 65500, got 0 x 2");
  CHECK_THROWS_AS(pack_img({}, HostTensor({2, 2, 1}, DType::float32)), TypeError);

  ScratchFolder folder;
  const auto items = read_list(golden("images.lst"));
  pack_files(items, data_file("images"), folder / "x", {.resize = 8, .format = {.is_png = true}});
  vision::ImageRecordDataset d(folder / "x.rec");
  for (int64_t i = 0; i < d.size(); ++i) {
    const HostTensor image = HostTensor::copy_of(image::imread(data_file("images/" + items[size_t(i)].path)));
    const HostTensor resized = vision::transforms::Resize(8, {.keep_ratio = true})(image);
    CHECK(d.get(i).data.to_array().asvector<uint8_t>() == resized.to_array().asvector<uint8_t>());
  }
  pack_files(items, data_file("images"), folder / "y", {.center_crop = true, .flag = 0});
  CHECK(vision::ImageRecordDataset(folder / "y.rec").get(0).data.shape() == Shape(13, 13, 3));
}

TEST_CASE("recordio: images of records, damaged ones thrown or skipped") {
  vision::ImageRecordDataset d(golden("images.rec"));
  REQUIRE(d.size() == 4);
  for (int64_t i = 0; i < 4; ++i) {
    const ListItem item = read_list(golden("images.lst"))[size_t(i)];
    const Sample s = d.get(i);
    const NDArray pixels = image::imread(data_file("images/" + item.path));
    CHECK(s.data.shape() == pixels.shape());
    CHECK(s.data.to_array().asvector<uint8_t>() == pixels.asvector<uint8_t>());
    CHECK(s.label.shape() == (i < 2 ? Shape() : Shape(3)));
    CHECK(s.label.as<float>()[0] == float(i));
  }
  CHECK(vision::ImageRecordDataset(golden("images.rec"), {.flag = 0}).get(0).data.shape()[2] == 1);
  CHECK(message([] { vision::ImageRecordDataset(golden("images.rec"), {.flag = 2}); }) ==
        "[ImageRecordDataset] flag: expected 0 or 1, got 2");

  ScratchFolder folder;
  const std::string rec = (folder / "some.rec").string();
  MXIndexedRecordIO out(folder / "some.idx", rec, "w");
  const std::string good = bytes_of(data_file("images/rgb.jpg"));
  out.write_idx(3, pack({.label = {1}}, good));
  out.write_idx(4, pack({.label = {2}}, good.substr(0, good.size() / 2)));
  out.write_idx(5, pack({.label = {3}}, "no image"));
  out.write_idx(6, "short");
  out.write_idx(7, pack({.label = {5}}, good));
  out.close();
  vision::ImageRecordDataset damaged(rec);
  CHECK_THAT(message([&] { damaged.get(1); }),
             Contains("[ImageRecordDataset] " + rec + ": record 1 (key 4, at byte ") && Contains("damaged JPEG"));
  CHECK_THAT(message([&] { damaged.get(2); }),
             Contains("record 2 (key 5, ") && Contains("expected a JPEG or PNG file"));
  CHECK_THAT(message([&] { damaged.get(3); }), Contains("record 3 (key 6, ") && Contains("expected a header"));
  for (int workers : {0, 2}) {
    std::vector<float> labels, skipped;
    for (Batch& b : DataLoader(damaged, {.batch_size = 2, .workers = workers, .skip_corrupt = true}).sync()) {
      for (float l : b.label.asvector<float>()) labels.push_back(l);
      for (const SkippedSample& s : b.skipped) skipped.push_back(float(s.index));
    }
    CHECK(labels == std::vector<float>{1, 5});
    CHECK(skipped == std::vector<float>{1, 2, 3});
    CHECK_THAT(message([&] {
                 for (Batch& b : DataLoader(damaged, {.batch_size = 2, .workers = workers}).sync())
                   CHECK(b.size() == 2);
               }),
               Contains(" while loading sample 1 for batch 0"));
  }
}
#endif

TEST_CASE("recordio: messages name file and byte") {
  ScratchFolder folder;
  const std::string rec = (folder / "x.rec").string(), idx = (folder / "x.idx").string();
  auto read = [&](const std::string& bytes) {
    write_bytes(rec, bytes);
    return message([&] {
      MXRecordIO in(rec, "r");
      while (in.read()) {
      }
    });
  };
  const std::string whole = bytes_of(golden("records.rec"));
  CHECK(read("") == "nothing thrown");
  CHECK(read(whole.substr(0, 16 + 5)) ==
        "[recordio] " + rec + ": record at byte 12: truncated: expected 4 bytes from byte 20 on, the file has 21");
  CHECK(read(whole.substr(0, 16)) ==
        "[recordio] " + rec + ": record at byte 12: expected the 8 bytes of a head at byte 12, the file has 16");
  CHECK(read(whole.substr(0, 12) + std::string(8, 'x')) ==
        "[recordio] " + rec + ": record at byte 12: expected the magic number ced7230a at byte 12, got 78787878");
  const std::string magic("\x0a\x23\xd7\xce", 4);
  CHECK(read(magic + std::string("\x00\x00\x00\x40", 4)) ==
        "[recordio] " + rec + ": record at byte 0: expected a first part at byte 0, got part 2");
  CHECK(read(magic + std::string("\x00\x00\x00\x20", 4)) ==
        "[recordio] " + rec + ": record at byte 0: expected its next part at byte 8, got the end of the file");
  CHECK(read(magic + std::string("\x00\x00\x00\xe0", 4)) ==
        "[recordio] " + rec + ": record at byte 0: expected a part 0 to 3 at byte 4, got 7");
  CHECK(message([&] { MXRecordIO(folder / "none.rec", "r"); }) ==
        "[recordio] " + (folder / "none.rec").string() + ": cannot open: No such file or directory");
  CHECK(message([&] { MXRecordIO(folder / "none.rec", "a"); }) ==
        "[recordio] " + (folder / "none.rec").string() + ": flag: expected \"r\" or \"w\", got \"a\"");
  MXRecordIO out(rec, "w");
  CHECK(message([&] { out.read(); }) == "[recordio] read: " + rec + " was opened to be written");
  out.close();
  CHECK(message([&] { out.write("a"); }) == "[recordio] write: the file is closed");
  write_bytes(idx, "0\t0\nkey\t5\n");
  CHECK(message([&] { MXIndexedRecordIO(idx, rec, "r"); }) ==
        "[recordio] " + idx + ": line 2: expected a key, a tab and a byte, got \"key\t5\"");
  write_bytes(idx, "0\t0\n");
  CHECK(message([&] { MXIndexedRecordIO(idx, rec, "r").read_idx(2); }) ==
        "[recordio] " + idx + ": expected one of 1 keys, got 2");
  CHECK(message([&] { MXIndexedRecordIO(idx, rec, "r").read_idx(0); }) ==
        "[recordio] " + idx + ": key 0 is at byte 0, the end of " + rec);
  write_bytes(idx, "1\t2.0\n");
  CHECK(message([&] { read_list(idx); }) ==
        "[recordio] " + idx + ": line 1: expected a key, labels and a path, with tabs between them, got \"1\t2.0\"");
}

TEST_CASE("recordio: damaged files throw IoError or give records, nothing else") {
  ScratchFolder folder;
  std::mt19937 random(3);
  const std::string whole = bytes_of(golden("records.rec"));
  for (int round = 0; round < 2000; ++round) {
    write_bytes(folder / "d.rec", mutate(whole, random));
    try {
      MXRecordIO in(folder / "d.rec", "r");
      size_t bytes = 0;
      while (auto record = in.read()) bytes += record->size();
      CHECK(bytes < 1000);
    } catch (const IoError&) {
    }
  }
}

}  // namespace record_io_test
