#include "kaon/interchange/torch_files.h"

#include "kaon/tests/interchange/support.h"

namespace torch_test {

using namespace kaon;
using namespace kaon::test;
using Catch::Matchers::Contains;

namespace {

// A zip archive of one entry that is stored.
std::string archive_of(const std::string& pickle, const std::string& name = "a/data.pkl") {
  const auto u16 = [](size_t n) { return std::string{char(n), char(n >> 8)}; };
  const auto u32 = [&](size_t n) { return u16(n & 0xffff) + u16(n >> 16); };
  const std::string zeros(4, '\0');
  const std::string common =
      u16(20) + u16(0) + u16(0) + zeros + zeros + u32(pickle.size()) + u32(pickle.size()) + u16(name.size()) + u16(0);
  const std::string local = "PK\x03\x04" + common + name + pickle;
  const std::string central = "PK\x01\x02" + u16(20) + common + u16(0) + u16(0) + u16(0) + zeros + zeros + name;
  return local + central + "PK\x05\x06" + zeros + u16(1) + u16(1) + u32(central.size()) + u32(local.size()) + u16(0);
}

std::string refused(const std::string& pickle) {
  return refusal([&] { torch_files::load_from_bytes(archive_of(pickle), "f"); });
}

std::string text(const std::string& s) { return std::string("X") + char(s.size()) + std::string(3, '\0') + s; }

}  // namespace

TEST_CASE("torch: a tree of all dtypes, strides and shared storages", "[interchange]") {
  const NamedArrays arrays = torch_files::load(foreign_file("tree.pt"));
  for (DType dtype : ops::all_dtypes) {
    INFO(to_string(dtype));
    check_foreign(find(arrays, "tensors." + to_string(dtype)), {3, 4}, dtype);
  }
  CHECK(find(arrays, "tensors.scalar").shape() == Shape());
  CHECK(find(arrays, "tensors.empty").shape() == Shape(0, 5));
  const NDArray base = foreign_array({4, 6}, DType::float32);
  CHECK(same_bytes(find(arrays, "transposed"), base.transpose()));
  CHECK(same_bytes(find(arrays, "part"), base(range(1, 3), range(0, 6, 2)).copy()));
  CHECK(same_bytes(find(arrays, "row"), base[2].copy()));
  CHECK(find(arrays, "expanded").asvector<float>() == std::vector<float>{2, 2, 2});
  CHECK(same_bytes(find(arrays, "parameter"), base[0].copy()));
  CHECK(same_bytes(find(arrays, "list.1.0"), base[1].copy()));
  CHECK(same_bytes(find(arrays, "7"), base[3].copy()));
  // tensors of one storage are views of one memory, as they are there
  NDArray row = find(arrays, "row"), first = find(arrays, "list.0");
  const NDArray parameter = find(arrays, "parameter");
  first += 10;
  CHECK(parameter.asvector<float>()[0] == foreign_value(0, DType::float32) + 10);
  CHECK(row.asvector<float>() == base[2].asvector<float>());
  CHECK(&first.var() == &row.var());
}

TEST_CASE("torch: a tensor that PyTorch keeps as the negative of its elements", "[interchange]") {
  const NamedArrays file = torch_files::load(foreign_file("negated.pt"));
  REQUIRE(file.size() == 3);
  CHECK(file[0].second.asvector<float>() == std::vector<float>{.5f, -1.5f, 2.5f, 3.5f, -4.5f, 0});
  CHECK(file[1].second.asvector<float>() == std::vector<float>{-.5f, 1.5f, -2.5f, -3.5f, 4.5f, 0});
  CHECK(file[2].second.asvector<float>() == std::vector<float>{1.5f, -2.5f, 4.5f, 0});
}

TEST_CASE("torch: tensors of a checkpoint are read beside values that are left out", "[interchange]") {
  for (const char* name : {"checkpoint.pt", "checkpoint4.pt"}) {
    INFO(name);
    const torch_files::Contents file = torch_files::contents(foreign_file(name));
    CHECK(same_bytes(file.at("net.weight"), foreign_array({2, 3}, DType::float32)));
    CHECK(same_bytes(file.at("net.bias"), foreign_array({2}, DType::float32)));
    CHECK(file.at("optimizer.state.0.exp_avg").shape() == Shape(2, 3));
    CHECK(file.at("history.images.0").asvector<float>() == std::vector<float>{1, 1});
    struct Row {
      const char *name, *found;
      bool is_tensor;
    };
    const Row rows[] = {{"args", "an object of 'argparse.Namespace'", false},
                        {"history.loss.1", "multiarray.scalar'", false},
                        {"path", "an object of 'pathlib", false},
                        {"when", "an object of 'datetime.datetime'", false},
                        {"array", "multiarray._reconstruct'", false},
                        {"partial", "an object of 'functools.partial'", false},
                        {"loss", "an object of 'torch.nn.modules.loss.MSELoss'", false},
                        {"f8", "expected a dtype that Kaon has, found 'torch.float8_e4m3fn'", true},
                        {"c64", "expected a dtype that Kaon has, found 'torch.ComplexFloatStorage'", true},
                        {"sparse", "an object of 'torch._utils._rebuild_sparse_tensor'", true},
                        {"keys.(the number 2.5)", "a text or an integer as a key, found the number 2.5", true}};
    for (const Row& row : rows) {
      INFO(row.name);
      CHECK_THAT(refusal([&] { file.at(row.name); }), Contains(row.found) && Contains("at byte") && Contains(name));
      bool is_tensor = !row.is_tensor;
      for (const torch_files::LeftOut& l : file.left_out) {
        if (l.name == row.name) is_tensor = l.is_tensor;
      }
      CHECK(is_tensor == row.is_tensor);
    }
    CHECK(file.left_out.size() == std::size(rows) + 2);  // three numbers of a loss
    CHECK_THROWS_AS(file.at("none"), ValueError);
    CHECK(torch_files::load(foreign_file(name)).size() == file.arrays.size());
  }
}

TEST_CASE("torch: what is no state dict is refused by name", "[interchange]") {
  CHECK_THAT(refusal([] { torch_files::load(foreign_file("legacy.pt")); }), Contains("PyTorch's format before 1.6"));
  CHECK_THAT(refusal([] { torch_files::load(foreign_file("script.pt")); }), Contains("TorchScript"));
  CHECK_THAT(refusal([] { torch_files::load(foreign_file("module.pt")); }),
             Contains("'torch.nn.modules.container.Sequential'"));
  CHECK_THAT(refusal([] { torch_files::load(foreign_file("f8.pt")); }),
             Contains("a dtype that Kaon has, found 'torch.float8_e4m3fn'"));
  CHECK_THAT(refusal([] { torch_files::load(foreign_file("stored.npz")); }),
             Contains("an entry '<name>/data.pkl', found 12 entries"));
  CHECK_THAT(refusal([] { torch_files::load(foreign_file("all.safetensors")); }), Contains("zip archive"));
}

TEST_CASE("torch: a pickle that calls code is refused by name, and nothing is called", "[interchange]") {
  const torch_files::Contents evil = torch_files::contents(foreign_file("evil.pt"));
  CHECK(evil.arrays.size() == 1);
  CHECK(evil.at("a").asvector<float>() == std::vector<float>{1, 1});
  const std::string error = refusal([&] { evil.at("b"); });
  CHECK_THAT(error, Contains("evil.pt: at byte") && Contains("'b'") &&
                        Contains("system', which only running code could make"));
  CHECK_FALSE(fs::exists("kaon_was_here"));
  const std::string call = "(" + text("id") + "tR.";  // nothing else is in the file
  for (const char* name :
       {"os\nsystem\n", "builtins\neval\n", "builtins\n__import__\n", "torch\nload\n", "torch.hub\nload\n",
        "torch\nFloatStorage.__class__\n", "\nx\n", "a b\nc\n", "torch._utils\n__builtins__\n"}) {
    INFO(name);
    const std::string refusal = refused(std::string("\x80\x02") + "c" + name + call);
    CHECK((refusal.find("only running code") != std::string::npos ||
           refusal.find("the name of a class or function") != std::string::npos));
  }
}

TEST_CASE("torch: hostile pickles are refused, with the place", "[interchange]") {
  struct Row {
    std::string pickle;
    const char* error;
  };
  const std::string start = "\x80\x02", tensor = start + "}" + text("a") + "ctorch._utils\n_rebuild_tensor_v2\n((" +
                                                 text("storage") + "ctorch\nFloatStorage\n" + text("0") + text("cpu");
  const Row rows[] = {
      {start, "an operation of a pickle"},
      {start + ".", "a value on the stack, found none"},
      {start + "NN.", "one value at the end, found several"},
      {start + "0.", "a value on the stack"},
      {start + "t.", "a mark on the stack"},
      {start + "h\x05.", "none with index 5"},
      {start + "r\xff\xff\xff\xff.", "an index below the size of the file"},
      {start + "(NNN"
               "d.",
       "keys with values"},
      {start + "Na.", "a value on the stack"},
      {start + "NNa.", "a list, found None"},
      {start + "X\xff\xff\xff\x7f.", "a text (2147483647 bytes), found only"},
      {start + "\x8d\xff\xff\xff\xff\xff\xff\xff\xff.", "a text (18446744073709551615 bytes)"},
      {start + "\x8b\xff\xff\xff\xff.", "an integer (4294967295 bytes)"},
      {start + "\x95" + std::string(7, '\0') + "\x80}.",
       "a frame within the 2 bytes that are left, found 9223372036854775808"},
      {start + "NNR.", "a class or function to call, found None"},
      {start + "ccollections\nOrderedDict\nNR.", "a tuple of arguments, found None"},
      {start + "NNb.", "an object for a state"},
      {start + "ios\nsystem\n.", "data alone, found 0x69"},
      {start + "cos", "ended by a new line"},
      {std::string("\x80\x09."), "protocol 2 to 5, found 9"},
      {std::string("I1\n."), "data alone, found 0x49"},
      {tensor + "K\x04tQK" + char(0) + "K\x02\x85K\x01\x85\x89NtRs.",
       "a storage of the archive, found no entry 'a/data/0'"},
      {tensor + "J\xff\xff\xff\xfftQK" + char(0) + "K\x02\x85K\x01\x85\x89NtRs.",
       "the size of a storage, found the integer -1"},
      {start + "}" + text("a") + "ctorch._utils\n_rebuild_tensor_v2\n(NNNNtRs.", "a reference to a storage"},
      {start + "}" + text("a") + "ctorch._utils\n_rebuild_tensor_v2\n(NtRs.", "storage, offset, size and stride"},
      {start + "}" + text("a") + "ctorch._utils\n_rebuild_parameter\n(NtRs.", "the tensor of a parameter, found None"},
      // a list inside of itself, and a tree of 2^40 leaves
      {start + "]q\x01h\x01"
               "a.",
       "a tree of at most 64 levels"},
      {[&] {
         std::string p = start + "N\x85q";
         p += char(0);
         for (int i = 1; i < 40; ++i) p += "0h" + std::string(1, char(i - 1)) + "h" + char(i - 1) + "\x86q" + char(i);
         return p + ".";
       }(),
       "no part of it in very many places"},
  };
  for (const Row& row : rows) {
    const std::string error = refused(row.pickle);
    CHECK_THAT(error, Contains(row.error));
    CHECK_THAT(error, Contains("f: at byte"));
  }
  // deep, but no recursion is needed to read it or to let it go
  std::string deep = start;
  for (int i = 0; i < 1'000'000; ++i) deep += i ? "\x85" : "N";
  CHECK_THAT(refused(deep + "."), Contains("a tree of at most 64 levels"));
}

TEST_CASE("torch: files that are cut off or changed are read or refused", "[interchange]") {
  check_broken(
      bytes_of(foreign_file("tree.pt")), [](std::string_view b) { torch_files::load_from_bytes(b); }, 2000);
  check_broken(
      bytes_of(foreign_file("net.pt")), [](std::string_view b) { torch_files::load_from_bytes(b); }, 1000);
}

TEST_CASE("torch: strides that leave the storage, and tensors of huge sizes, are refused", "[interchange]") {
  const std::string good = bytes_of(foreign_file("tree.pt"));
  // the size (6, 4) and the stride (1, 6) of 'transposed'
  const std::string from = "K\x06K\x04\x86", to = "K\x06K\x7f\x86";
  size_t changed = 0;
  for (size_t at = good.find(from); at != std::string::npos; at = good.find(from, at + 1)) {
    std::string bytes = good;
    bytes.replace(at, to.size(), to);
    CHECK_THAT(refusal([&] { torch_files::load_from_bytes(bytes, "f"); }),
               Contains("a tensor within the 24 elements of storage"));
    ++changed;
  }
  CHECK(changed >= 1);
}

}  // namespace torch_test
