// The array files: those of real MXNet, small ones of every kind, damaged ones.
#include "kaon/ops/ndarray_file.h"

#include <catch2/catch.hpp>

#include <cstring>
#include <random>

#include "kaon/ops/functions.h"
#include "kaon/tests/support/files.h"
#include "kaon/tests/support/skip.h"

namespace ndarray_file_test {

using namespace kaon;
using namespace kaon::test;
using Catch::Matchers::Contains;

namespace {

std::vector<double> ramp(int64_t n, double start = 0) {
  std::vector<double> values;
  for (int64_t i = 0; i < n; ++i) values.push_back(start + double(i));
  return values;
}

NDArray find(const NamedArrays& arrays, const std::string& name) {
  for (const auto& [n, array] : arrays) {
    if (n == name) return array;
  }
  FAIL("no array named " << name);
  return NDArray();
}

std::vector<std::string> small_files() {
  return {"v0.params",     "v1.params", "gpu.params",   "bfloat16.params", "mixed.nd",
          "dtypes.params", "list.nd",   "numpy.params", "row_sparse.nd",   "csr.nd"};
}

// Little-endian bytes of a number.
template <class T>
std::string word(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

// A list that holds one V2 array of these dimensions and says nothing else.
std::string one_array(const std::vector<int64_t>& dims, int32_t dtype = 0) {
  std::string text = word(uint64_t(0x112)) + word(uint64_t(0)) + word(uint64_t(1)) + word(0xF993FAC9u) + word(0);
  text += word(int32_t(dims.size()));
  for (int64_t d : dims) text += word(d);
  return text + word(1) + word(0) + word(dtype);
}

}  // namespace

TEST_CASE("files of MXNet are written again byte for byte", "[ndarray_file]") {
  if (!fs::exists(fixtures_dir())) return skip("no MXNet files at " + fixtures_dir().string());
  struct Case {
    const char* file;
    int version;
    size_t arrays;
  };
  for (const Case& c :
       {Case{"LeNet-0001.params", 2, 10}, Case{"cifar_resnet20_v1-0000.params", 2, 107},
        Case{"det1-0001.params", 0, 13}, Case{"det2-0001.params", 0, 16}, Case{"go_test-0001.params", 0, 2},
        Case{"legacy_ndarray.v0", 0, 6}, Case{"sagemaker_default_model-0000.params", 1, 2},
        Case{"sagemaker_dummy_model-0000.params", 2, 6}, Case{"sagemaker_gluon_model.params", 1, 6}}) {
    INFO(c.file);
    const fs::path file = fixtures_dir() / c.file;
    const NamedArrays arrays = nd_file::load(file);
    CHECK(arrays.size() == c.arrays);
    CHECK(nd_file::save_to_bytes(arrays, {.version = c.version}) == bytes_of(file));
  }
}

TEST_CASE("values of MXNet's files", "[ndarray_file]") {
  if (!fs::exists(fixtures_dir())) return skip("no MXNet files at " + fixtures_dir().string());
  const NamedArrays legacy = nd_file::load(fixtures_dir() / "legacy_ndarray.v0");
  for (const auto& [name, array] : legacy) {
    CHECK(name.empty());
    CHECK(array.shape() == Shape(128));
    CHECK(array.asvector<double>() == ramp(128));
  }
  const NamedArrays line = nd_file::load(fixtures_dir() / "sagemaker_default_model-0000.params");
  CHECK(line[0].first == "arg:fc1_weight");
  CHECK(line[0].second.shape() == Shape(1, 2));
  CHECK(line[0].second.asvector<float>()[0] == 1.0f);
  CHECK(line[1].first == "arg:fc1_bias");
}

TEST_CASE("each element type as MXNet 1.9.1 writes it", "[ndarray_file]") {
  const NamedArrays arrays = nd_file::load(data_file("dtypes.params"));
  const DType types[] = {DType::float32, DType::float64, DType::float16, DType::uint8,
                         DType::int32,   DType::int8,    DType::int64,   DType::boolean};
  REQUIRE(arrays.size() == 8);
  for (size_t k = 0; k < 8; ++k) {
    INFO(arrays[k].first);
    const NDArray array = find(arrays, "arg:" + std::string(name_of(types[k])));
    CHECK(array.dtype() == types[k]);
    CHECK(array.shape() == Shape(2, 3));
    CHECK(array.asvector<double>() ==
          (types[k] == DType::boolean ? std::vector<double>{1, 0, 1, 0, 1, 0} : ramp(6, double(k))));
  }
  CHECK(nd_file::save_to_bytes(arrays) == bytes_of(data_file("dtypes.params")));

  const NamedArrays narrow = nd_file::load(data_file("bfloat16.params"));
  CHECK(narrow[0].second.dtype() == DType::bfloat16);
  CHECK(narrow[0].second.asvector<double>() == ramp(6));
  CHECK(nd_file::save_to_bytes(narrow) == bytes_of(data_file("bfloat16.params")));
}

TEST_CASE("the element types of MXNet 2", "[ndarray_file]") {
  const NamedArrays arrays = nd_file::load(data_file("integers.params"));
  const DType types[] = {DType::int16, DType::uint16, DType::uint32, DType::uint64};
  REQUIRE(arrays.size() == 4);
  for (size_t k = 0; k < 4; ++k) {
    CHECK(arrays[k].first == name_of(types[k]));
    CHECK(arrays[k].second.dtype() == types[k]);
    CHECK(arrays[k].second.asvector<double>() == ramp(6));
  }
  CHECK(nd_file::save_to_bytes(arrays) == bytes_of(data_file("integers.params")));
}

TEST_CASE("a plain list has no names", "[ndarray_file]") {
  const NamedArrays list = nd_file::load(data_file("list.nd"));
  REQUIRE(list.size() == 2);
  CHECK(list[0].first.empty());
  CHECK(list[1].second.shape() == Shape(1, 2, 2));
  CHECK(list[1].second.asvector<double>() == ramp(4, 1));
  CHECK(nd_file::save_to_bytes(list) == bytes_of(data_file("list.nd")));
  CHECK(nd_file::load_from_bytes(nd_file::save_to_bytes({})).empty());
}

TEST_CASE("old formats, arrays that are none, and formats mixed in one list", "[ndarray_file]") {
  for (int version : {0, 1}) {
    const fs::path file = data_file(version == 0 ? "v0.params" : "v1.params");
    const NamedArrays arrays = nd_file::load(file);
    REQUIRE(arrays.size() == 3);
    CHECK(arrays[0].second.asvector<double>() == ramp(6));
    CHECK(arrays[1].second.dtype() == DType::int64);
    CHECK_FALSE(arrays[2].second.defined());
    CHECK(nd_file::save_to_bytes(arrays, {.version = version}) == bytes_of(file));
    const NamedArrays again = nd_file::load_from_bytes(nd_file::save_to_bytes(arrays));
    CHECK(again[0].second.asvector<double>() == ramp(6));
    CHECK_FALSE(again[2].second.defined());
  }
  const NamedArrays mixed = nd_file::load(data_file("mixed.nd"));
  REQUIRE(mixed.size() == 5);
  for (size_t i = 0; i < 4; ++i) CHECK(mixed[i].second.asvector<double>() == ramp(2));
  CHECK_FALSE(mixed[4].second.defined());
}

TEST_CASE("arrays saved on a GPU load to the CPU", "[ndarray_file]") {
  const NamedArrays arrays = nd_file::load(data_file("gpu.params"));
  CHECK(find(arrays, "on_gpu").device() == cpu());
  CHECK(find(arrays, "on_gpu").asvector<double>() == ramp(4));
  CHECK(find(arrays, "pinned").asvector<double>() == ramp(3));
}

TEST_CASE("scalars and empty arrays", "[ndarray_file]") {
  const fs::path file = data_file("numpy.params");
  const NamedArrays arrays = nd_file::load(file);
  CHECK(find(arrays, "scalar").shape() == Shape());
  CHECK(find(arrays, "scalar").asscalar<float>() == 7.0f);
  CHECK(find(arrays, "empty").shape() == Shape(0, 3));
  CHECK(find(arrays, "matrix").asvector<double>() == ramp(6, 2));
  CHECK(nd_file::save_to_bytes(arrays, {.version = 3}) == bytes_of(file));
  // by default everything that V2 can say is V2
  const NamedArrays again = nd_file::load_from_bytes(nd_file::save_to_bytes(arrays));
  CHECK(find(again, "scalar").asscalar<float>() == 7.0f);
  CHECK(find(again, "empty").shape() == Shape(0, 3));
  CHECK_THROWS_AS(nd_file::save_to_bytes(arrays, {.version = 1}), ValueError);
  CHECK_THROWS_AS(nd_file::save_to_bytes(arrays, {.version = 4}), ValueError);
}

TEST_CASE("sparse arrays are refused by name", "[ndarray_file]") {
  CHECK_THROWS_WITH(nd_file::load(data_file("row_sparse.nd")),
                    Contains("row_sparse.nd") && Contains("at byte 28") &&
                        Contains("sparse storage (1: row_sparse), which sparse::load reads"));
  CHECK_THROWS_WITH(nd_file::load(data_file("csr.nd")), Contains("sparse storage (2: csr)"));
}

TEST_CASE("saving replaces the file at once or leaves it", "[ndarray_file]") {
  ScratchFolder folder;
  const fs::path file = folder / "model.params";
  const NDArray x = nd.arange(0, 6).reshape({2, 3});
  nd_file::save(file, {{"arg:x", x}, {"arg:row", x[1]}, {"none", NDArray()}});
  const NamedArrays back = nd_file::load(file);
  CHECK(find(back, "arg:x").asvector<double>() == ramp(6));
  CHECK(find(back, "arg:row").asvector<double>() == ramp(3, 3));  // the view's bytes only
  CHECK_FALSE(find(back, "none").defined());
  CHECK(folder.count() == 1);

  const std::string before = bytes_of(file);
  const NDArray scalar = find(nd_file::load(data_file("numpy.params")), "scalar");
  CHECK_THROWS_AS(nd_file::save(file, {{"a", x}, {"b", scalar}}, {.version = 0}), ValueError);
  CHECK(bytes_of(file) == before);
  CHECK(folder.count() == 1);

  fs::create_symlink(file, folder / "link.params");
  nd_file::save(folder / "link.params", {{"a", x}});
  CHECK(fs::is_symlink(folder / "link.params"));
  CHECK(nd_file::load(file).size() == 1);
}

TEST_CASE("a list larger than the write buffer", "[ndarray_file]") {
  ScratchFolder folder;
  NamedArrays arrays;
  for (int i = 0; i < 3000; ++i) arrays.emplace_back("p" + std::to_string(i), nd.full({2}, i));
  arrays.emplace_back("large", nd.arange(0, 100'000));
  nd_file::save(folder / "many.params", arrays);
  CHECK(bytes_of(folder / "many.params") == nd_file::save_to_bytes(arrays));
  const NamedArrays back = nd_file::load(folder / "many.params");
  CHECK(back[2999].second.asvector<float>()[1] == 2999.0f);
  CHECK(back[3000].second.asvector<double>() == ramp(100'000));
}

TEST_CASE("files that are missing or no files", "[ndarray_file]") {
  ScratchFolder folder;
  CHECK_THROWS_AS(nd_file::load(folder / "missing.params"), IoError);
  CHECK_THROWS_WITH(nd_file::load(folder / ""), Contains("expected a regular file"));
  CHECK_THROWS_WITH(nd_file::load("/dev/null"), Contains("expected a regular file"));
  CHECK_THROWS_AS(nd_file::save(folder / "missing" / "x.params", {}), IoError);
  CHECK_THROWS_AS(nd_file::save("/dev/null", {}), IoError);
  CHECK(fs::is_character_file("/dev/null"));
}

TEST_CASE("errors say where and what", "[ndarray_file]") {
  CHECK_THROWS_WITH(
      nd_file::load_from_bytes("", "empty.params"),
      "empty.params: at byte 0: expected the mark of a list of arrays (8 bytes), found only 0 bytes up to the end");
  CHECK_THROWS_WITH(nd_file::load_from_bytes("PK\x03\x04 zip file"),
                    Contains("expected the mark of a list of arrays (0x112)"));
  CHECK_THROWS_WITH(nd_file::load_from_bytes(one_array({2, 3})),
                    Contains("the values of an array of shape (2, 3) and type float32"));
  CHECK_THROWS_WITH(nd_file::load_from_bytes(one_array({-1, 3})), Contains("at byte 36") && Contains("found -1"));
  CHECK_THROWS_WITH(nd_file::load_from_bytes(one_array({3}, 13)), Contains("expected an element type"));
  CHECK_THROWS_WITH(nd_file::load_from_bytes(one_array({3}, 256)),
                    Contains("expected an element type"));  // not float32
  CHECK_THROWS_WITH(nd_file::load_from_bytes(one_array(std::vector<int64_t>(9, 1))), Contains("at most 8 dimensions"));
  const std::string good = bytes_of(data_file("list.nd"));
  CHECK_THROWS_WITH(nd_file::load_from_bytes(good + "x"), Contains("expected the end, found 1 more bytes"));
}

TEST_CASE("sizes in a file are never trusted", "[ndarray_file]") {
  const int64_t large = int64_t(1) << 62;
  for (const auto& dims : std::vector<std::vector<int64_t>>{{large},
                                                            {large, large},
                                                            {large, 4},
                                                            {large, large, 0},
                                                            {0, large, large},
                                                            {1 << 30, 1 << 30, 1 << 30},
                                                            {INT64_MAX, 2}}) {
    CHECK_THROWS_AS(nd_file::load_from_bytes(one_array(dims)), IoError);
  }
  const std::string head = word(uint64_t(0x112)) + word(uint64_t(0));
  CHECK_THROWS_AS(nd_file::load_from_bytes(head + word(~uint64_t(0))), IoError);                      // arrays
  CHECK_THROWS_AS(nd_file::load_from_bytes(head + word(uint64_t(0)) + word(~uint64_t(0))), IoError);  // names
  std::string list = nd_file::save_to_bytes({{"a", NDArray()}});
  list.replace(list.size() - 9, 8, word(~uint64_t(0)));  // the length of the name
  CHECK_THROWS_AS(nd_file::load_from_bytes(list), IoError);
}

TEST_CASE("every beginning of a file is refused", "[ndarray_file]") {
  for (const std::string& name : small_files()) {
    INFO(name);
    const std::string whole = bytes_of(data_file(name));
    REQUIRE_FALSE(whole.empty());
    for (size_t n = 0; n < whole.size(); ++n) {
      REQUIRE_THROWS_AS(nd_file::load_from_bytes(whole.substr(0, n)), IoError);
    }
  }
}

TEST_CASE("damaged files give an IoError or arrays", "[ndarray_file]") {
  std::mt19937_64 random(20240501);
  int refused = 0, read = 0;
  for (const std::string& name : small_files()) {
    const std::string whole = bytes_of(data_file(name));
    for (int i = 0; i < 2000; ++i) {
      const std::string damaged = mutate(whole, random);
      try {
        const NamedArrays arrays = nd_file::load_from_bytes(damaged);
        for (const auto& [n, array] : arrays) {
          if (array.defined()) array.asvector<float>();
        }
        ++read;
      } catch (const IoError&) {
        ++refused;
      }
    }
  }
  CHECK(refused > 1000);
  CHECK(read > 1000);
}

}  // namespace ndarray_file_test
