// The command-line tools, run as programs.
#ifdef KAON_TOOLS_DIR
#include <sys/wait.h>

#include <cstdio>

#include "kaon/interchange/numpy_files.h"
#include "kaon/interchange/safetensors.h"
#include "kaon/interchange/tensor_files.h"
#include "kaon/tests/interchange/support.h"

using namespace kaon;
using namespace kaon::test;
using Catch::Matchers::Contains;
namespace nn = kaon::gluon::nn;

namespace {

struct Ran {
  int status;
  std::string text;  // of both outputs
};

Ran run(const std::string& tool, const std::string& arguments) {
  const std::string command = std::string("'") + KAON_TOOLS_DIR + "/kaon-" + tool + "' " + arguments + " 2>&1";
  std::FILE* pipe = ::popen(command.c_str(), "r");
  REQUIRE(pipe);
  std::string text;
  char piece[4096];
  while (const size_t n = std::fread(piece, 1, sizeof piece, pipe)) text.append(piece, n);
  const int status = ::pclose(pipe);
  REQUIRE(WIFEXITED(status));
  return {WEXITSTATUS(status), text};
}

std::string quoted(const fs::path& file) { return "'" + file.string() + "'"; }

// A net with its files, and what it gives.
struct Exported {
  ScratchFolder folder;
  nn::HybridSequential net{nn::Dense(4, {.activation = "relu"}), nn::Dense(2)};
  NDArray x = nd.arange(6).reshape({2, 3}), y;
  Exported() {
    net.initialize(init::One());
    net.hybridize();
    y = net(x);
    net.export_model((folder / "net").string());
    npy::save(folder / "x.npy", x);
  }
};

}  // namespace

TEST_CASE("tools: each has --help and --version, and says what is wrong", "[interchange]") {
  for (const char* tool : {"info", "convert", "run", "bench"}) {
    INFO(tool);
    const Ran help = run(tool, "--help");
    CHECK(help.status == 0);
    CHECK_THAT(help.text, Contains("Usage: ") && Contains("file") && Contains("--help"));
    CHECK(run(tool, "--version").status == 0);
    const Ran none = run(tool, "");
    CHECK(none.status != 0);
    CHECK_THAT(none.text, Contains("required"));
  }
  const Ran missing = run("info", "/none");
  CHECK(missing.status == 1);
  CHECK_THAT(missing.text, Contains("kaon-info: /none: cannot open"));
}

TEST_CASE("tools: kaon-info says what is in each kind of file", "[interchange]") {
  const Ran tensors = run("info", quoted(foreign_file("all.safetensors")));
  CHECK(tensors.status == 0);
  CHECK_THAT(tensors.text, Contains("safetensors") && Contains("made by: safetensors") && Contains("tensors: 16") &&
                               Contains("bfloat16") && Contains("(3, 4)"));
  CHECK_THAT(run("info", quoted(foreign_file("f8.safetensors"))).text,
             Contains("not supported: Kaon has no such dtype"));
  CHECK_THAT(run("info", quoted(foreign_file("tree.pt"))).text,
             Contains("PyTorch's archive") && Contains("tensors.int64"));
  CHECK_THAT(run("info", quoted(foreign_file("stored.npz")) + " --tensors 2").text, Contains("... 10 more"));
  CHECK_THAT(run("info", quoted(foreign_file("legacy.pt"))).text, Contains("before 1.6"));
  CHECK_THAT(run("info", quoted(foreign_file("complex.npy"))).text, Contains("<c8") && Contains("no such dtype"));
  const Ran evil = run("info", quoted(foreign_file("evil.pt")));
  CHECK(evil.status == 1);
  CHECK_THAT(evil.text, Contains("only running code could make"));

  const Exported e;
  const Ran net =
      run("info", quoted(e.folder / "net-symbol.json") + " --shape 2,3 --plot " + quoted(e.folder / "p.dot"));
  CHECK(net.status == 0);
  CHECK_THAT(net.text, Contains("2 FullyConnected") && Contains("Total params: 26") && Contains("p.dot"));
  CHECK(fs::exists(e.folder / "p.dot"));
}

TEST_CASE("tools: kaon-convert keeps what converts, casts and renames", "[interchange]") {
  const ScratchFolder folder;
  const auto convert = [&](const fs::path& in, const std::string& out, const std::string& options = "") {
    const Ran ran = run("convert", quoted(in) + " " + quoted(folder / out) + " " + options);
    INFO(ran.text);
    REQUIRE(ran.status == 0);
    return load_tensors(folder / out);
  };
  const NamedArrays all = load_tensors(foreign_file("all.safetensors"));
  for (const char* out : {"a.npz", "a.params", "b.safetensors", "m.safetensors.index.json"}) {
    const NamedArrays converted = convert(foreign_file("all.safetensors"), out, "--shard-bytes 100000 --compress");
    REQUIRE(converted.size() == all.size());
    for (const auto& [name, array] : all) CHECK(same_bytes(find(converted, name), array));
  }
  const NamedArrays some = convert(foreign_file("net.pt"), "some.safetensors",
                                   "--only '^state_dict' --strip-prefix state_dict. --rename '^([0-9])=layer$1' "
                                   "--add-prefix m. --dtype bfloat16 --metadata format=pt");
  CHECK(find(some, "m.layer0.weight").dtype() == DType::bfloat16);
  CHECK(find(some, "m.layer1.num_batches_tracked").dtype() == DType::int64);
  CHECK(safetensors::load(folder / "some.safetensors").metadata.at("format") == "pt");

  const Exported e;
  const NamedArrays plain = convert(e.folder / "net-0000.params", "plain.safetensors");
  CHECK(plain.size() == 4);
  CHECK(plain[0].first.find(':') == std::string::npos);
  CHECK(run("convert", quoted(e.folder / "net-symbol.json") + " " + quoted(folder / "p.dot")).status == 0);
  CHECK_THAT(run("convert", quoted(e.folder / "net-symbol.json") + " " + quoted(folder / "p.npz")).text,
             Contains("a program is written as"));
  CHECK_THAT(run("convert", quoted(foreign_file("net.pt")) + " " + quoted(folder / "p.pt")).text,
             Contains("expected a name ending in"));
  CHECK_THAT(run("convert", quoted(foreign_file("net.pt")) + " " + quoted(folder / "p.npz") + " --dtype float3").text,
             Contains("got 'float3'"));
  CHECK_THAT(run("convert", quoted(foreign_file("net.pt")) + " " + quoted(folder / "p.npz") + " --rename '(=x'").text,
             Contains("is no regular expression"));
}

TEST_CASE("tools: kaon-run gives what the net gives", "[interchange]") {
  const Exported e;
  const std::string net = quoted(e.folder / "net-symbol.json"), x = quoted(e.folder / "x.npy");
  const auto outputs = [&](const std::string& arguments) {
    const Ran ran = run("run", net + " " + arguments + " --output " + quoted(e.folder / "y.npy"));
    INFO(ran.text);
    REQUIRE(ran.status == 0);
    return npy::load(e.folder / "y.npy");
  };
  CHECK(same_bytes(outputs("--input " + x), e.y));
  CHECK(same_bytes(outputs("--input data=" + x), e.y));
  npz::save(e.folder / "in.npz", {{"data", e.x}});
  CHECK(same_bytes(outputs("--input " + quoted(e.folder / "in.npz")), e.y));
  // weights of another kind
  REQUIRE(run("convert", quoted(e.folder / "net-0000.params") + " " + quoted(e.folder / "w.safetensors")).status == 0);
  CHECK(same_bytes(outputs("--input " + x + " --params " + quoted(e.folder / "w.safetensors")), e.y));
  CHECK_THAT(run("run", net + " --input " + x).text, Contains("(2, 2) float32") && Contains("@cpu(0)"));
  CHECK_THAT(run("run", net + " --input other=" + x).text, Contains("no array for the input 'data'"));
  CHECK_THAT(run("run", x + " --input " + x).text, Contains("expected a net"));
}

TEST_CASE("tools: kaon-bench has a row for each batch and number of threads", "[interchange]") {
  const Exported e;
  const Ran ran =
      run("bench", quoted(e.folder / "net-symbol.json") + " --shape 1,3 --batch 1,4 --threads 1,2 --seconds 0.01");
  INFO(ran.text);
  CHECK(ran.status == 0);
  CHECK(std::ranges::count(ran.text, '\n') == 5);
  CHECK_THAT(run("bench", quoted(e.folder / "net-symbol.json") + " --shape 1,0").text,
             Contains("numbers of 1 or more"));
  CHECK_THAT(run("bench", quoted(e.folder / "net-symbol.json") + " --shape x=1,3").text, Contains("no input 'x'"));
}
#endif
