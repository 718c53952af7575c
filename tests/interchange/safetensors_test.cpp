#include "kaon/interchange/safetensors.h"

#include "kaon/ops/array/array_node.h"
#include "kaon/tests/interchange/support.h"

namespace safetensors_test {

using namespace kaon;
using namespace kaon::test;
using Catch::Matchers::Contains;

namespace {

// A file with this header, and `data` bytes of zeros.
std::string file_of(const std::string& header, size_t data) {
  const uint64_t n = header.size();
  return std::string(reinterpret_cast<const char*>(&n), 8) + header + std::string(data, '\0');
}

std::string refused(const std::string& header, size_t data) {
  return refusal([&] { safetensors::load_from_bytes(file_of(header, data), "f"); });
}

}  // namespace

TEST_CASE("safetensors: the library's own files have all dtypes, metadata, scalars and empty arrays", "[interchange]") {
  const auto contents = safetensors::load(foreign_file("all.safetensors"));
  CHECK(contents.metadata.at("format") == "pt");
  CHECK(contents.metadata.at("made by") == "safetensors");
  CHECK(contents.arrays.size() == 16);
  for (DType dtype : ops::all_dtypes) {
    INFO(to_string(dtype));
    check_foreign(find(contents.arrays, to_string(dtype)), {3, 4}, dtype);
  }
  CHECK(find(contents.arrays, "scalar").shape() == Shape());
  CHECK(find(contents.arrays, "scalar").asscalar<float>() == -3);
  CHECK(find(contents.arrays, "empty").shape() == Shape(0, 5));
  check_foreign(find(contents.arrays, "odd"), {5}, DType::int8);
}

TEST_CASE("safetensors: an index joins files, in its own folder alone", "[interchange]") {
  const auto contents = safetensors::load(foreign_file("model.safetensors.index.json"));
  CHECK(contents.arrays.size() == 3);
  check_foreign(find(contents.arrays, "int64"), {3, 4}, DType::int64);
  CHECK(contents.metadata.at("total_size") == "99");
  CHECK(safetensors::list(foreign_file("model.safetensors.index.json")).size() == 3);

  const ScratchFolder folder;
  const auto refused_index = [&](const std::string& text) {
    std::ofstream(folder / "m.safetensors.index.json") << text;
    return refusal([&] { safetensors::load(folder / "m.safetensors.index.json"); });
  };
  for (const char* name : {"../all.safetensors", "/etc/passwd", "..", "", "a\\\\b", "a\\u0000b"}) {
    CHECK_THAT(refused_index(std::string("{\"weight_map\": {\"a\": \"") + name + "\"}}"),
               Contains("the name of a file beside the index for tensor 'a'"));
  }
  CHECK_THAT(refused_index("{\"weight_map\": {\"a\": 3}}"), Contains("found no text"));
  CHECK_THAT(refused_index("{\"weight_map\": []}"), Contains("an object \"weight_map\""));
  CHECK_THAT(refused_index("{\"weight_map\": {\"a\": \"none.safetensors\"}}"), Contains("cannot open"));
  safetensors::save(folder / "b.safetensors", {{"b", nd.ones({2})}});
  CHECK_THAT(refused_index("{\"weight_map\": {\"a\": \"b.safetensors\"}}"),
             Contains("the 1 tensors that the index has in this file, found 0"));
}

TEST_CASE("safetensors: what is written is read again, in one file and in several", "[interchange]") {
  const ScratchFolder folder;
  NamedArrays arrays;
  for (DType dtype : ops::all_dtypes) arrays.emplace_back(to_string(dtype), foreign_array({3, 5}, dtype));
  arrays.emplace_back("scalar", nd.full({1}, 2).reshape({1}));
  arrays.emplace_back("empty", nd.zeros({0, 3}));
  arrays.emplace_back("a \"name\" \n \xc3\xa4", nd.arange(7));
  arrays.emplace_back("view", nd.arange(24).reshape({4, 6}).slice(1, 3));
  safetensors::save(folder / "a.safetensors", arrays, {.metadata = {{"k", "v"}, {"", "\x01"}}});
  const auto read = safetensors::load(folder / "a.safetensors");
  CHECK(read.metadata.size() == 2);
  REQUIRE(read.arrays.size() == arrays.size());
  for (const auto& [name, array] : arrays) CHECK(same_bytes(find(read.arrays, name), array));
  // the first tensor is aligned, each one for its elements
  const auto tensors = safetensors::list(folder / "a.safetensors");
  CHECK(tensors[0].offset % 64 == 0);
  for (const auto& t : tensors) CHECK(t.offset % (t.dtype.ends_with("64") ? 8 : t.dtype.ends_with("32") ? 4 : 1) == 0);

  for (uint64_t most : {uint64_t(1), uint64_t(150), uint64_t(1) << 40}) {
    const ScratchFolder shards;
    safetensors::save(shards / "m.safetensors.index.json", arrays, {.max_shard_bytes = most});
    CHECK(shards.count() == (most == 1 ? arrays.size() + 1 : most == 150 ? shards.count() : 2));
    const auto again = safetensors::load(shards / "m.safetensors.index.json");
    REQUIRE(again.arrays.size() == arrays.size());
    for (const auto& [name, array] : arrays) CHECK(same_bytes(find(again.arrays, name), array));
  }
  CHECK_THROWS_WITH(safetensors::save(folder / "b.safetensors", arrays, {.max_shard_bytes = 1}),
                    Contains("need an index"));
  CHECK_THROWS_WITH(safetensors::save(folder / "b", {{"", nd.ones({1})}}), Contains("empty"));
  CHECK_THROWS_WITH(safetensors::save(folder / "b", {{"a", nd.ones({1})}, {"a", nd.ones({1})}}),
                    Contains("two arrays"));
  CHECK_THROWS_WITH(safetensors::save(folder / "b", {{"a", NDArray()}}), Contains("undefined"));
  CHECK_THROWS_WITH(safetensors::save(folder / "b", {{"__metadata__", nd.ones({1})}}), Contains("no name"));
  CHECK_THROWS_WITH(safetensors::save(folder / "b", {{"\xff", nd.ones({1})}}), Contains("UTF-8"));
  CHECK_THROWS_WITH(safetensors::save(folder / "b", {{"a", nd.ones({1})}}, {.alignment = 24}), Contains("alignment"));
  CHECK_FALSE(fs::exists(folder / "b"));
}

TEST_CASE("safetensors: arrays lie in the mapped file, and writing them changes no file", "[interchange]") {
  const ScratchFolder folder;
  safetensors::save(folder / "a", {{"x", nd.arange(100000)}, {"y", nd.ones({8})}});
  const std::string before = bytes_of(folder / "a");
  NDArray x = find(safetensors::load(folder / "a").arrays, "x");  // lives longer than the rest
  x += 1;
  CHECK(x.asvector<float>()[99999] == 100000);
  CHECK(bytes_of(folder / "a") == before);
  const auto again = safetensors::load(folder / "a");
  CHECK(find(again.arrays, "x").asvector<float>()[99999] == 99999);
  // an old file that is replaced stays what it was for arrays over it
  safetensors::save(folder / "a", {{"x", nd.zeros({100000})}});
  CHECK(find(again.arrays, "x").asvector<float>()[99999] == 99999);
}

TEST_CASE("safetensors: elements that are not aligned are copied", "[interchange]") {
  const std::string header =
      R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[1,9]},"b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
  std::string bytes = file_of(header, 9);
  const float values[] = {1.5f, -2};
  std::memcpy(bytes.data() + bytes.size() - 8, values, 8);
  CHECK(find(safetensors::load_from_bytes(bytes).arrays, "a").asvector<float>() == std::vector<float>{1.5f, -2});
}

TEST_CASE("safetensors: up to 4 MiB, elements that begin inside of a cache line are copied", "[interchange]") {
  constexpr size_t most = 4 << 20;
  std::string header = fmt::format(R"({{"long":{{"dtype":"F32","shape":[{}],"data_offsets":[0,{}]}},)"
                                   R"("short":{{"dtype":"F32","shape":[{}],"data_offsets":[{},{}]}}}})",
                                   most / 4 + 1, most + 4, most / 4, most + 4, 2 * most + 4);
  header.resize(header.size() + (64 + 24 - header.size() % 64) % 64, ' ');  // the first element is at 32 of 64
  const ScratchFolder folder;
  std::string bytes = file_of(header, 2 * most + 4);
  const float last = 3;
  std::memcpy(bytes.data() + bytes.size() - 4, &last, 4);
  std::ofstream(folder / "a", std::ios::binary) << bytes;
  const auto contents = safetensors::load(folder / "a");
  const NDArray a = find(contents.arrays, "long"), b = find(contents.arrays, "short");
  CHECK(reinterpret_cast<uintptr_t>(a.node().data()) % 64 == 32);
  CHECK(reinterpret_cast<uintptr_t>(b.node().data()) % 64 == 0);
  CHECK(b.asvector<float>().back() == 3);
}

TEST_CASE("safetensors: bytes of bool other than 0 are 1, in place and copied", "[interchange]") {
  for (const size_t n : {size_t(3), (size_t(4) << 20) + 1}) {
    INFO(n << " elements");
    std::string bytes =
        file_of(fmt::format(R"({{"a":{{"dtype":"BOOL","shape":[{}],"data_offsets":[0,{}]}}}})", n, n), n);
    bytes[bytes.size() - 2] = '\x7f';
    const NDArray a = find(safetensors::load_from_bytes(bytes).arrays, "a");
    CHECK(nd.sum(a.astype(DType::int32)).asscalar<int>() == 1);
    CHECK(a.asvector<int>()[n - 2] == 1);
    CHECK(nd_file::save_to_bytes({{"a", a}}).find('\x7f') == std::string::npos);
  }
}

TEST_CASE("safetensors: hostile headers are refused, with the place", "[interchange]") {
  struct Row {
    const char* header;
    size_t data;
    const char* error;
  };
  const Row rows[] = {
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
       12, "tensors that overlap"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
       8, "tensors that overlap"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8, "found a hole"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 8, "4 more bytes"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 4, "within the 4 bytes of data, found [0, 8]"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8, "in order"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[-1,7]}})", 8,
       "an offset as a whole number of 0 or more, found -1"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,18446744073709551615]}})", 8, "in order and within"},
      {R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8,
       "a dimension as a whole number of 0 or more, found -2"},
      {R"({"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,8]}})", 8, "a dimension as a whole number"},
      {R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8, "12 bytes for its shape and dtype, found 8"},
      {R"({"a":{"dtype":"F32","shape":[4611686018427387904,4611686018427387904],"data_offsets":[0,0]}})", 0,
       "a shape whose elements can be counted"},
      {R"({"a":{"dtype":"F32","shape":[0,9223372036854775807,9223372036854775807],"data_offsets":[0,0]}})", 0,
       "a shape whose elements can be counted"},
      {R"({"a":{"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,0]}})", 0, "a dimension below 2^63"},
      {R"({"a":{"dtype":"X9","shape":[1],"data_offsets":[0,4]}})", 4, "a dtype of the format, found 'X9'"},
      {R"({"a":{"shape":[1],"data_offsets":[0,4]}})", 4, "a text \"dtype\", found none"},
      {R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", 4, "a list \"shape\", found none"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", 4, "two \"data_offsets\", found 1"},
      {R"({"a":3})", 0, "tensor 'a': an object, found 3"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
       1, "each key of the header once, found 'a' again"},
      {R"({"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1, "'dtype' again"},
      {R"({"__metadata__":{"a":3}})", 0, "a text in \"__metadata__\" as 'a', found 3"},
      {R"({"__metadata__":[]})", 0, "an object as \"__metadata__\""},
      {R"({"a":{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,4]}})", 4, "at most 8 dimensions, found 9"},
      {R"({"a":)", 0, "the header as JSON"},
      {R"({} x)", 0, "the header as JSON"},
      {R"([])", 0, "a header that begins with '{'"},
      {"", 0, "a header that begins with '{', found nothing"},
  };
  for (const Row& row : rows) {
    INFO(row.header);
    const std::string error = refused(row.header, row.data);
    CHECK_THAT(error, Contains(row.error));
    CHECK_THAT(error, Contains("f: at byte"));
  }
  CHECK_THAT(refused(std::string(60, '{'), 0), Contains("as JSON"));
  std::string deep = "{\"__metadata__\":";
  for (int i = 0; i < 100; ++i) deep += "[";
  CHECK_THAT(refused(deep, 0), Contains("as JSON"));
  const auto short_file = [](uint64_t n, const std::string& rest) {
    return refusal(
        [&] { safetensors::load_from_bytes(std::string(reinterpret_cast<const char*>(&n), 8) + rest, "f"); });
  };
  CHECK_THAT(short_file(UINT64_MAX, "{}"), Contains("at byte 0: expected a header of at most 100000000 bytes"));
  CHECK_THAT(short_file(99'999'999, "{}"), Contains("at byte 8: expected the header (99999999 bytes), found only 2"));
  CHECK_THAT(refusal([] { safetensors::load_from_bytes("abc", "f"); }), Contains("only 3 bytes up to the end"));
  CHECK_THAT(refusal([] { safetensors::load(foreign_file("f8.safetensors")); }),
             Contains("tensor 'f8' of a dtype that Kaon has, found F8_E4M3"));
  CHECK(safetensors::list(foreign_file("f8.safetensors")).size() == 2);
  CHECK_THAT(refusal([] { safetensors::load("/dev/null"); }), Contains("a regular file"));
}

TEST_CASE("safetensors: files that are cut off or changed are read or refused", "[interchange]") {
  check_broken(bytes_of(foreign_file("all.safetensors")), [](std::string_view b) { safetensors::load_from_bytes(b); });
}

}  // namespace safetensors_test
