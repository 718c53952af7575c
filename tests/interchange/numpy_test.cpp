#include "kaon/interchange/numpy_files.h"

#include "kaon/tests/interchange/support.h"

namespace numpy_test {

using namespace kaon;
using namespace kaon::test;
using Catch::Matchers::Contains;

namespace {

// A file of version 1 with this header, and `data` bytes of zeros.
std::string npy_of(const std::string& header, size_t data) {
  const auto n = uint16_t(header.size());
  return std::string("\x93NUMPY\x01\x00", 8) + std::string(reinterpret_cast<const char*>(&n), 2) + header +
         std::string(data, '\0');
}

}  // namespace

TEST_CASE("npy: NumPy's own files of all dtypes, orders, byte orders and versions", "[interchange]") {
  for (DType dtype : ops::all_dtypes) {
    INFO(to_string(dtype));
    check_foreign(npy::load(foreign_file(to_string(dtype) + ".npy")), {3, 4}, dtype);
  }
  for (DType dtype : {DType::float32, DType::int16, DType::float64, DType::uint64}) {
    check_foreign(npy::load(foreign_file("big_" + to_string(dtype) + ".npy")), {3, 4}, dtype);
  }
  check_foreign(npy::load(foreign_file("fortran.npy")), {3, 4, 2}, DType::float32);
  CHECK(npy::read_header(foreign_file("fortran.npy")).fortran_order);
  check_foreign(npy::load(foreign_file("big_fortran.npy")), {3, 4}, DType::int32);
  check_foreign(npy::load(foreign_file("version2.npy")), {3, 4}, DType::float32);
  check_foreign(npy::load(foreign_file("version3.npy")), {3, 4}, DType::float32);
  CHECK(npy::load(foreign_file("scalar.npy")).shape() == Shape());
  CHECK(npy::load(foreign_file("scalar.npy")).asscalar<double>() == -3);
  CHECK(npy::load(foreign_file("empty.npy")).shape() == Shape(0, 5));
}

TEST_CASE("npy: the bytes of NumPy's files come back", "[interchange]") {
  const auto again = [](const std::string& name, const npy::SaveOptions& options) {
    const std::string own = npy::save_to_bytes(npy::load(foreign_file(name)), options);
    INFO(name);
    CHECK(own == bytes_of(foreign_file(name)));
  };
  for (DType dtype : ops::all_dtypes) again(to_string(dtype) + ".npy", {});
  again("fortran.npy", {.fortran_order = true});
  again("scalar.npy", {});
  again("empty.npy", {});
  again("version2.npy", {.version = 2});
  again("version3.npy", {.version = 3});
}

TEST_CASE("npy: what is written is read again", "[interchange]") {
  const ScratchFolder folder;
  for (DType dtype : ops::all_dtypes) {
    for (const Shape& shape : {Shape(), Shape(1), Shape(7), Shape(2, 3), Shape(3, 0, 2), Shape(2, 1, 3, 2)}) {
      for (bool fortran : {false, true}) {
        for (int version : {1, 2, 3}) {
          const NDArray a = foreign_array(shape, dtype);
          npy::save(folder / "a.npy", a, {.version = version, .fortran_order = fortran});
          CHECK(same_bytes(npy::load(folder / "a.npy"), a));
        }
      }
    }
  }
  CHECK_THROWS_WITH(npy::save(folder / "b", nd.ones({1}), {.version = 4}),
                    Contains("version must be 1, 2 or 3, got 4"));
  CHECK_THROWS_WITH(npy::save(folder / "b", NDArray()), Contains("undefined"));
  CHECK_THROWS_AS(npy::save(folder / "no" / "b", nd.ones({1})), IoError);
}

TEST_CASE("npy: what Kaon cannot hold is refused by name", "[interchange]") {
  CHECK_THAT(refusal([] { npy::load(foreign_file("complex.npy")); }), Contains("'<c8', complex numbers"));
  CHECK_THAT(refusal([] { npy::load(foreign_file("objects.npy")); }), Contains("Python's objects"));
  CHECK_THAT(refusal([] { npy::load(foreign_file("texts.npy")); }), Contains("texts"));
  CHECK_THAT(refusal([] { npy::load(foreign_file("structure.npy")); }), Contains("a structure of several"));
}

TEST_CASE("npy: hostile headers are refused, with the place", "[interchange]") {
  struct Row {
    const char* header;
    size_t data;
    const char* error;
  };
  const Row rows[] = {
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", 8, "12 bytes for shape (3,) of float32, found 8"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", 8, "4 bytes for shape (1,) of float32, found 8"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", 0, "a dimension from 0 to 2^63 - 1, found '-'"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775808,), }", 0, "a dimension from 0"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 9223372036854775807), }", 0,
       "an array of less than 2^63 bytes"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (0, 9223372036854775807, 9), }", 0,
       "an array of less than 2^63 bytes"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1), }", 4, "at most 8 dimensions"},
      {"{'descr': '<f4', 'fortran_order': 0, 'shape': (1,), }", 4, "True or False, found '0'"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': 1, }", 4, "'(', found '1'"},
      {"{'descr': '<f4', 'fortran_order': False}", 4, "not all of them"},
      {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", 4, "each once, found 'descr'"},
      {"{'descr': '<f4', 'x': 3}", 4, "each once, found 'x'"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} + exit()", 4, "the end of the header, found more text"},
      {"__import__('os').system('x')", 4, "'{', found '_'"},
      {"{'descr': '<f4", 4, "no end of it"},
      {"", 4, "'{', found the end of the header"},
  };
  for (const Row& row : rows) {
    INFO(row.header);
    const std::string error = refusal([&] { npy::load_from_bytes(npy_of(row.header, row.data), "f"); });
    CHECK_THAT(error, Contains(row.error));
    CHECK_THAT(error, Contains("f: at byte"));
  }
  CHECK_THAT(refusal([] { npy::load_from_bytes("\x93NUMPZ", "f"); }), Contains("the magic text"));
  CHECK_THAT(refusal([] { npy::load_from_bytes(std::string("\x93NUMPY\x04\x00\x00\x00", 10), "f"); }),
             Contains("version 1, 2 or 3 of the format, found 4"));
  CHECK_THAT(refusal([] { npy::load_from_bytes(std::string("\x93NUMPY\x02\x00\xff\xff\xff\xff", 12), "f"); }),
             Contains("a header of at most 1048576 bytes, found 4294967295"));
}

TEST_CASE("npz: NumPy's own archives, stored, deflated and with zip64", "[interchange]") {
  for (const char* name : {"stored.npz", "deflated.npz"}) {
    const NamedArrays arrays = npz::load(foreign_file(name));
    for (DType dtype : ops::all_dtypes) {
      if (dtype != DType::bfloat16) check_foreign(find(arrays, to_string(dtype)), {3, 4}, dtype);
    }
  }
  CHECK(find(npz::load(foreign_file("deflated.npz")), "zeros").sum().asscalar<float>() == 0);
  check_foreign(find(npz::load(foreign_file("zip64.npz")), "a"), {3, 4}, DType::float32);
}

TEST_CASE("npz: what is written is read again", "[interchange]") {
  const ScratchFolder folder;
  NamedArrays arrays;
  for (DType dtype : ops::all_dtypes) arrays.emplace_back("a/" + to_string(dtype), foreign_array({3, 5}, dtype));
  arrays.emplace_back("empty", nd.zeros({0, 2}));
  arrays.emplace_back("large", nd.arange(300000).reshape({300, 1000}));
  for (bool compress : {false, true}) {
    npz::save(folder / "a.npz", arrays, {.compress = compress});
    const NamedArrays read = npz::load(folder / "a.npz");
    REQUIRE(read.size() == arrays.size());
    for (size_t i = 0; i < arrays.size(); ++i) {
      CHECK(read[i].first == arrays[i].first);
      CHECK(same_bytes(read[i].second, arrays[i].second));
    }
    CHECK(npz::save_to_bytes(arrays, {.compress = compress}) == bytes_of(folder / "a.npz"));
  }
  CHECK(fs::file_size(folder / "a.npz") < 1'200'000);
  npz::save(folder / "none.npz", {});
  CHECK(npz::load(folder / "none.npz").empty());
  CHECK_THROWS_WITH(npz::save(folder / "b", {{"a", nd.ones({1})}, {"a", nd.ones({1})}}), Contains("two arrays"));
  CHECK_THROWS_WITH(npz::save(folder / "b", {{std::string(70000, 'x'), nd.ones({1})}}), Contains("65535"));
}

TEST_CASE("npz: bombs and archives that lie are refused", "[interchange]") {
  const std::string bytes = npz::save_to_bytes({{"a", nd.zeros({1000})}, {"b", nd.ones({1000})}}, {.compress = true});
  const auto with = [&](const std::string& from, size_t at, auto number) {
    std::string changed = from;
    std::memcpy(changed.data() + at, &number, sizeof number);
    return refusal([&] { npz::load_from_bytes(changed, "f"); });
  };
  const size_t first = bytes.find("PK\x01\x02"), second = bytes.find("PK\x01\x02", first + 4);
  const size_t end = bytes.rfind("PK\x05\x06");
  CHECK_THAT(with(bytes, first + 24, uint32_t(0xfffffff0)), Contains("1032 times"));
  CHECK_THAT(with(bytes, first + 24, uint32_t(4127)), Contains("4127 bytes when inflated, found more"));
  CHECK_THAT(with(bytes, first + 24, uint32_t(4129)), Contains("4129 bytes when inflated, found 4128"));
  CHECK_THAT(with(bytes, first + 16, uint32_t(7)), Contains("with CRC-32 0x00000007"));
  CHECK_THAT(with(bytes, second + 42, uint32_t(0)), Contains("the name 'b.npy', as in the directory"));
  CHECK_THAT(with(bytes, first + 42, uint32_t(9)), Contains("before the directory"));
  CHECK_THAT(with(bytes, first + 8, uint16_t(1)), Contains("an encrypted entry"));
  CHECK_THAT(with(bytes, first + 10, uint16_t(99)), Contains("method 99"));
  CHECK_THAT(with(bytes, end + 4, uint16_t(1)), Contains("an archive in one part"));
  CHECK_THAT(with(bytes, end + 10, uint16_t(60000)), Contains("at most 2 entries"));
  CHECK_THAT(with(bytes, end + 16, uint32_t(0x7fffffff)), Contains("a directory before byte"));
  std::string twice = bytes;
  twice[second + 46] = 'a';
  CHECK_THAT(refusal([&] { npz::load_from_bytes(twice, "f"); }), Contains("each name once, found 'a.npy' again"));
  // an entry that contains the next one, as bombs have them
  std::string stored = npz::save_to_bytes({{"a", nd.zeros({100})}, {"b", nd.ones({100})}});
  const size_t entry = stored.find("PK\x01\x02");
  for (size_t field : {20, 24}) {
    const uint32_t more = 700;
    std::memcpy(stored.data() + entry + field, &more, sizeof more);
  }
  CHECK_THAT(refusal([&] { npz::load_from_bytes(stored, "f"); }), Contains("found entries that overlap"));
  for (const char* name : {"../a.npy", "/etc/a.npy", "a\\b.npy"}) {
    CHECK_THROWS_WITH(
        npz::load_from_bytes(npz::save_to_bytes({{std::string(name, std::strlen(name) - 4), nd.ones({1})}})),
        Contains("a name inside of the archive"));
  }
  CHECK_THAT(refusal([&] { npz::load_from_bytes(bytes, "f", {.max_bytes = 5000}); }),
             Contains("at most 5000 bytes together"));
  CHECK_THAT(refusal([] { npz::load_from_bytes(std::string(100, 'x'), "f"); }),
             Contains("the end record of a zip archive"));
  CHECK_THAT(refusal([] { npz::load_from_bytes("", "f"); }), Contains("a zip archive (22 bytes), found 0 bytes"));
  CHECK_THAT(refusal([] { npz::load(foreign_file("tree.pt")); }), Contains("entries whose names end in .npy"));
}

TEST_CASE("npy, npz: files that are cut off or changed are read or refused", "[interchange]") {
  check_broken(bytes_of(foreign_file("fortran.npy")), [](std::string_view b) { npy::load_from_bytes(b); });
  check_broken(bytes_of(foreign_file("deflated.npz")), [](std::string_view b) { npz::load_from_bytes(b); });
  check_broken(bytes_of(foreign_file("zip64.npz")), [](std::string_view b) { npz::load_from_bytes(b); });
}

}  // namespace numpy_test
