// What the command-line tools take and refuse: inputs of nets, pairs of formats, options without a use.
#ifdef KAON_TOOLS_DIR
#include <fstream>

#include "kaon/interchange/onnx.h"
#include "kaon/interchange/safetensors.h"
#include "kaon/interchange/tensor_files.h"
#include "kaon/tests/interchange/onnx/models.h"
#include "kaon/tests/interchange/tools_support.h"

namespace tools_test {

using Catch::Matchers::Contains;

namespace {

// The tool ends with the status and says all of `texts`; nothing else went wrong.
void check_refused(const std::string& tool, const std::string& arguments, const std::vector<std::string>& texts,
                   int status = 1) {
  const Ran ran = run(tool, arguments);
  CAPTURE(tool, arguments, ran.text);
  CHECK(ran.status == status);
  CHECK_THAT(ran.text, Catch::Matchers::StartsWith("kaon-" + tool + ": "));
  for (const std::string& text : texts) CHECK_THAT(ran.text, Contains(text));
}

// a - 2 b, of inputs called a and b, as a symbol file and as an ONNX model.
struct TwoInputs {
  ScratchFolder folder;
  NDArray a = nd.arange(6).reshape({2, 3}), b = nd.ones({2, 3}), y = a - 2 * b;
  std::string net = quoted(folder / "two-symbol.json"), model = quoted(folder / "two.onnx");
  TwoInputs() {
    const Symbol program = sym.as("y").elemwise_sub(Symbol::variable("a"), 2 * Symbol::variable("b"));
    program.save(folder / "two-symbol.json");
    onnx::format::Model m = onnx_model(17);
    for (const char* name : {"a", "b"}) {
      m.graph.inputs.push_back(onnx_info(name, onnx::format::ElementType::float32, {-1, 3}));
    }
    m.graph.outputs = {onnx_info("y", onnx::format::ElementType::float32, {-1, 3})};
    m.graph.nodes = {onnx_node("Sub", {"a", "b"}, {"c"}), onnx_node("Sub", {"c", "b"}, {"y"})};
    std::ofstream(folder / "two.onnx", std::ios::binary) << onnx::format::write_model(m);
    npy::save(folder / "a.npy", a);
    npy::save(folder / "b.npy", b);
    npy::save(folder / "p.npy", a);
    npy::save(folder / "q.npy", b);
    npy::save(folder / "wide.npy", b.astype(DType::float64) * 1.5);
    npz::save(folder / "both.npz", {{"b", b}, {"a", a}});
    npz::save(folder / "more.npz", {{"b", b}, {"a", a}, {"c", a}});
    npz::save(folder / "some.npz", {{"b", b}});
  }
  std::string file(const std::string& name) const { return quoted(folder / name); }
};

}  // namespace

TEST_CASE("tools: kaon-info refuses what is no file of a kind that it knows", "[interchange]") {
  const ScratchFolder folder;
  std::ofstream(folder / "empty");
  std::ofstream(folder / "text") << "a text\n";
  fs::create_directory(folder / "folder");
  for (const auto& [name, found] : {std::pair("empty", "found an empty file"),
                                    {"text", "none of these by its contents or its name"},
                                    {"folder", "found a folder"}}) {
    check_refused("info", quoted(folder / name), {(folder / name).string(), ".params", ".safetensors", ".onnx", found});
    check_refused("convert", quoted(folder / name) + " " + quoted(folder / "x.npz"), {(folder / name).string(), found});
    check_refused("run", quoted(folder / name) + " --input x.npy", {(folder / name).string()});
  }
  // damaged files of known names: their readers say where
  for (const char* ending : {".npy", ".npz", ".params", ".safetensors", ".pt", ".onnx", "-symbol.json"}) {
    const fs::path file = folder / (std::string("x") + ending);
    std::ofstream(file) << "no such file";
    const Ran ran = run("info", quoted(file));
    CAPTURE(ran.text);
    CHECK(ran.status == 1);
    CHECK_THAT(ran.text, Contains(file.string()) && (Contains("at byte") || Contains("offset") || Contains("line 1")));
  }
}

TEST_CASE("tools: kaon-info refuses an npy file whose header does not say how long it is", "[interchange]") {
  const ScratchFolder folder;
  const fs::path file = folder / "x.npy";
  npy::save(file, nd.ones({3, 4}));
  std::ifstream in(file, std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(in), {});
  const auto written = [&](const std::string& shape, size_t less) {
    std::string changed = bytes;
    const std::string text = shape + ", }";  // over the spaces behind it
    changed.replace(changed.find("(3, 4)"), text.size(), text);
    std::ofstream(file, std::ios::binary) << changed.substr(0, changed.size() - less);
    return quoted(file);
  };
  CHECK(run("info", written("(3, 4)", 0)).status == 0);
  check_refused("info", written("(3, 4)", 1), {"48 bytes for shape (3, 4) of float32, found 47"});
  check_refused("info", written("(9999, 99999)", 0), {"bytes for shape (9999, 99999) of float32, found 48"});
}

TEST_CASE("tools: control characters of names are printed as text", "[interchange]") {
  const ScratchFolder folder;
  const fs::path file = folder / "x.safetensors";
  safetensors::save(file, {{"a\x1b[31m\nb\x7f\u009bc", nd.ones({2})}}, {.metadata = {{"k\t", "v\x07"}}});
  const Ran ran = run("info", quoted(file));
  CHECK(ran.status == 0);
  CHECK_THAT(ran.text, Contains("a\\x1b[31m\\nb\\x7f\\x9bc") && Contains("k\\t: v\\x07"));
  CHECK(ran.text.find('\x1b') == std::string::npos);
  check_refused("convert", quoted(file) + " " + quoted(folder / "x.npz") + " --only '^\x1b'", {"\\x1b"});
}

TEST_CASE("tools: a model whose values are not each made once, and in order, is not written", "[interchange]") {
  using onnx::format::ElementType;
  const ScratchFolder folder;
  const std::string in = quoted(folder / "in.onnx"), out = quoted(folder / "out.onnx");
  const auto check = [&](const std::function<void(onnx::format::Model&)>& change, const std::string& fault) {
    onnx::format::Model m = onnx_model(17);
    m.graph.inputs = {onnx_info("x", ElementType::float32, {2})};
    m.graph.outputs = {onnx_info("y", ElementType::float32, {2})};
    m.graph.initializers = {onnx_tensor<float>("w", {2}, ElementType::float32, {1, 2})};
    m.graph.nodes = {onnx_node("Mul", {"x", "w"}, {"p"}), onnx_node("Neg", {"p"}, {"y"})};
    change(m);
    std::ofstream(folder / "in.onnx", std::ios::binary) << onnx::format::write_model(m);
    if (fault.empty()) {
      CHECK(run("convert", in + " " + out).status == 0);
      return;
    }
    check_refused("convert", in + " " + out, {fault, "in.onnx"});
    if (fault.starts_with("two initializers")) return check_refused("info", in, {fault, "in.onnx"});  // not even loaded
    const Ran info = run("info", in);
    CHECK(info.status == 0);
    CHECK_THAT(info.text, Contains("not supported: " + fault));
  };
  check([](auto&) {}, "");
  check([](auto& m) { m.graph.inputs.push_back(onnx_info("w", ElementType::float32, {2})); }, "");  // a default
  check([](auto& m) { m.graph.nodes[0].inputs[1] = "y"; },
        "the input 'y' of (Mul) that makes 'p' is made by no node before, only by (Neg) that makes 'y'");
  check([](auto& m) { m.graph.nodes[0].inputs[1] = "v"; }, "the input 'v' of (Mul) that makes 'p' is made by no node");
  check([](auto& m) { m.graph.nodes.push_back(onnx_node("Abs", {"x"}, {"p"})); },
        "the value 'p' is made more than once, by (Abs) that makes 'p' as well");
  check([](auto& m) { m.graph.nodes[0].outputs[0] = "w"; }, "the value 'w' is made more than once");
  check([](auto& m) { m.graph.initializers.push_back(m.graph.initializers[0]); }, "two initializers are named 'w'");
  check([](auto& m) { m.graph.inputs.push_back(m.graph.inputs[0]); }, "two inputs are named 'x'");
  check([](auto& m) { m.graph.nodes.pop_back(); }, "no node makes the output 'y'");
}

TEST_CASE("tools: kaon-run gives arrays to inputs by place, name or entry", "[interchange]") {
  const TwoInputs t;
  for (const std::string& net : {t.net, t.model}) {
    const auto gives = [&](const std::string& inputs, const NDArray& expected, const std::string& output) {
      const Ran ran = run("run", net + " " + inputs + " --output " + t.file(output));
      CAPTURE(inputs, ran.text);
      REQUIRE(ran.status == 0);
      const NDArray result = load_tensors(t.folder / output).at(0).second;
      CHECK(nd.max(nd.abs(result - expected)).asscalar<float>() == 0);
    };
    gives("--input " + t.file("p.npy") + " " + t.file("q.npy"), t.y, "y.npy");
    gives("--input " + t.file("p.npy") + " --input " + t.file("q.npy"), t.y, "y.npz");
    gives("--input " + t.file("p.npy") + " " + t.file("p.npy"), 0 - t.a, "y.npz");
    gives("--input b=" + t.file("q.npy") + " a=" + t.file("p.npy"), t.y, "y.safetensors");
    gives("--input b=" + t.file("q.npy") + " " + t.file("p.npy"), t.y, "y.params");
    gives("--input " + t.file("both.npz"), t.y, "y.npz");
    gives("--input " + t.file("some.npz") + " " + t.file("p.npy"), t.y, "y.npz");
    gives("--input a=" + t.file("some.npz") + " b=" + t.file("more.npz"), 0 - t.b, "y.npz");
    const std::string first = net + " --input ";
    check_refused("run", first + t.file("p.npy"), {"no array for the input 'b'"});
    check_refused("run", first + t.file("some.npz"), {"no array for the input 'a'"});
    check_refused("run", first + t.file("more.npz"), {"more.npz", "'c' is no input of the net", "a, b"});
    check_refused("run", first + "a=" + t.file("q.npy") + " c=" + t.file("q.npy"), {"'c' is no input of the net"});
    check_refused("run", first + "c=" + t.file("more.npz") + " a=" + t.file("more.npz"), {"'c' is no input"});
    check_refused("run", first + "a=" + t.file("q.npy") + " a=" + t.file("p.npy"), {"two arrays for the input 'a'"});
    check_refused("run", first + t.file("both.npz") + " b=" + t.file("q.npy"), {"two arrays for the input 'b'"});
    check_refused("run", first + t.file("p.npy") + " " + t.file("p.npy") + " " + t.file("q.npy"), {"is for no input"});
    check_refused("run", first + t.file("b.npy") + " " + t.file("a.npy"), {"b.npy is for the input 'a'", "b="});
    check_refused("run", first + t.file("none.npy") + " " + t.file("q.npy"), {"none.npy: cannot open"});
    const Ran printed = run("run", first + t.file("both.npz"));
    CHECK(printed.status == 0);
    CHECK_THAT(printed.text, Contains("(2, 3) float32"));
  }
}

TEST_CASE("tools: kaon-run refuses other dtypes and converts them where it is told to", "[interchange]") {
  const TwoInputs t;
  npy::save(t.folder / "halves.npy", t.b.astype(DType::float64) * 0.5);
  npy::save(t.folder / "huge.npy", t.b.astype(DType::float64) * 1e300);
  for (const std::string& net : {t.net, t.model}) {
    const std::string begin = net + " --input a=" + t.file("p.npy") + " b=";
    check_refused("run", begin + t.file("halves.npy"), {"'b' is of float32", "halves.npy of float64", "--cast"});
    const Ran ran = run("run", begin + t.file("halves.npy") + " --cast --output " + t.file("y.npy"));
    CAPTURE(ran.text);
    REQUIRE(ran.status == 0);
    CHECK(nd.max(nd.abs(npy::load(t.folder / "y.npy") - (t.a - t.b))).asscalar<float>() == 0);
    check_refused("run", begin + t.file("huge.npy") + " --cast", {"'b' of float64", "float32 cannot hold"});
  }
  const std::string begin = t.net + " --input " + t.file("both.npz") + " --output ";
  check_refused("run", begin + t.file("none/y.npy"), {"there is no folder"});
  check_refused("run", begin + t.file("y.txt"), {"expected a name ending in"});
  check_refused("run", begin + "-", {"expected a name ending in"});
  check_refused("run", begin + t.file("both.npz"), {"is read, and would be written over"});
  check_refused("run", begin + t.file("a.npy") + " --output " + t.file("b.npy"), {"--output"}, 2);
  const Exported e;
  fs::rename(e.folder / "net-0000.params", e.folder / "away.params");
  const std::string net = quoted(e.folder / "net-symbol.json"), x = quoted(e.folder / "x.npy");
  check_refused("run", net + " --input " + x, {"no array for the input 'dense", "--params"});
  check_refused("run", net + " --input " + x + " --params " + quoted(e.folder / "none.params"), {"none.params"});
  CHECK(run("run", net + " --input " + x + " --params " + quoted(e.folder / "away.params")).status == 0);
}

TEST_CASE("tools: kaon-convert keeps values between all kinds of tensors, and names pairs that it refuses",
          "[interchange]") {
  const Exported e;
  onnx::save(e.net, e.folder / "net.onnx");
  const NamedArrays arrays{{"w", nd.arange(6).reshape({2, 3})},
                           {"h", nd.arange(4).astype(DType::bfloat16)},
                           {"n", nd.arange(5).astype(DType::int64)}};
  for (const char* file : {"t.params", "t.safetensors", "t.npz", "t.nd"}) save_tensors(e.folder / file, arrays);
  save_tensors(e.folder / "t.safetensors.index.json", arrays, {.metadata = {}, .max_shard_bytes = 30});
  save_tensors(e.folder / "one.npy", {arrays[0]});
  fs::copy_file(foreign_file("net_alone.pt"), e.folder / "net.pt");
  fs::copy_file(foreign_file("legacy.pt"), e.folder / "legacy.pt");
  fs::copy_file(foreign_file("evil.states"), e.folder / "trainer.states");

  const std::vector<std::string> of_tensors{"t.params", "t.safetensors", "t.npz",   "t.nd", "t.safetensors.index.json",
                                            "net.pt",   "one.npy",       "net.onnx"};
  const std::vector<std::string> outs{"o.params", "o.nd", "o.safetensors", "o.safetensors.index.json",
                                      "o.npz",    "o.npy"};
  for (const std::string& in : of_tensors) {
    const NamedArrays before = load_tensors(e.folder / in);
    REQUIRE(!before.empty());
    for (const std::string& out : outs) {
      CAPTURE(in, out);
      const std::string arguments = quoted(e.folder / in) + " " + quoted(e.folder / out);
      if (out == "o.npy" && before.size() > 1) {
        check_refused("convert", arguments, {"holds one array"});
        continue;
      }
      const Ran ran = run("convert", arguments);
      CAPTURE(ran.text);
      REQUIRE(ran.status == 0);
      const NamedArrays after = load_tensors(e.folder / out);
      REQUIRE(after.size() == before.size());
      for (const auto& [name, array] : before) {
        CHECK(same_bytes(out == "o.npy" ? after[0].second : find(after, name), array));
      }
    }
    if (in == "net.onnx") continue;
    for (const char* out : {"o.onnx", "o-symbol.json", "o.json", "o.svg", "o.dot"}) {
      check_refused("convert", quoted(e.folder / in) + " " + quoted(e.folder / out),
                    {in, "has tensors and no net", out});
    }
  }
  for (const std::string& out : outs) {
    const std::string to = " " + quoted(e.folder / out);
    check_refused("convert", quoted(e.folder / "net-symbol.json") + to, {"has no tensors", out});
    check_refused("convert", quoted(e.folder / "trainer.states") + to, {"needs its trainer", out});
    check_refused("convert", quoted(e.folder / "legacy.pt") + to, {"before 1.6"});
  }
  check_refused("convert", quoted(e.folder / "net.onnx") + " " + quoted(e.folder / "o.svg"), {"is ONNX", "o.svg"});
  for (const char* out : {"o.pt", "o.pth"}) {
    check_refused("convert", quoted(e.folder / "t.npz") + " " + quoted(e.folder / out), {out, "read, not written"});
  }
  for (const char* out : {"o", "o.txt", "o.ckpt", ".npz", "-symbol.json"}) {
    check_refused("convert", quoted(e.folder / "t.npz") + " " + quoted(e.folder / out), {out});
  }
  // in place
  REQUIRE(run("convert", quoted(e.folder / "t.npz") + " " + quoted(e.folder / "t.npz") + " --compress").status == 0);
  for (const auto& [name, array] : arrays) CHECK(same_bytes(find(load_tensors(e.folder / "t.npz"), name), array));
}

TEST_CASE("tools: kaon-convert refuses options that would do nothing or harm", "[interchange]") {
  const Exported e;
  save_tensors(e.folder / "t.npz", {{"w", nd.ones({2}) * 1e6f}, {"n", nd.arange(5).astype(DType::int64)}});
  save_tensors(e.folder / "whole.npz", {{"n", nd.arange(5).astype(DType::int64)}});
  const std::string t = quoted(e.folder / "t.npz") + " ", net = quoted(e.folder / "net-symbol.json") + " ";
  const auto out = [&](const char* name) { return quoted(e.folder / name) + " "; };
  check_refused("convert", t + out("o.safetensors") + "--compress", {"--compress is for .npz alone"});
  check_refused("convert", t + out("o.params") + "--compress", {"--compress is for .npz alone"});
  for (const char* option : {"--shard-bytes 10", "--metadata a=b"}) {
    check_refused("convert", t + out("o.npz") + option, {"is for .safetensors alone"});
  }
  check_refused("convert", t + out("o.npz") + "--shape 1,2", {"--shape is for nets"});
  check_refused("convert", t + out("o.npz") + "--file-bytes 1", {"--file-bytes is for .onnx alone"});
  check_refused("convert", t + out("o.npz") + "--params x", {"--params is for a symbol.json"});
  for (const char* option : {"--dtype float16", "--only x", "--strip-prefix x", "--add-prefix x", "--rename a=b"}) {
    check_refused("convert", net + out("o.json") + option, {"is for tensors"});
    check_refused("convert", net + out("o.onnx") + "--shape 2,3 " + option, {"is for tensors"});
  }
  for (const char* dtype : {"int8", "uint8", "int64", "bool"}) {
    check_refused("convert", t + out("o.npz") + "--dtype " + dtype, {dtype, "would cut numbers"});
  }
  check_refused("convert", t + out("o.npz") + "--dtype float16", {"'w' of float32", "float16 cannot hold"});
  check_refused("convert", quoted(e.folder / "whole.npz") + " " + out("o.npz") + "--dtype float16",
                {"no tensor of", "is of a floating dtype"});
  check_refused("convert", t + out("o.npz") + "--strip-prefix model.", {"begins with 'model.'"});
  check_refused("convert", t + out("o.npz") + "--rename w=v --rename zz=v", {"has a name for 'zz=v'"});
  check_refused("convert", t + out("o.npz") + "--rename '.*=x'", {"two arrays are named"});
  check_refused("convert", t + out("o.npz") + "--rename =x", {"expected key=value"});
  check_refused("convert", t + out("o.safetensors") + "--metadata a=1 a=2", {"the key 'a' twice"});
  check_refused("convert", t + out("o.safetensors") + "--shard-bytes -1", {"--shard-bytes", "0 or more, got '-1'"}, 2);
  check_refused("convert", t + out("o.npz") + "--dtype float32 --dtype float64", {"--dtype"}, 2);
  check_refused("convert", t + out("o.npz") + "--bogus", {"--bogus"}, 2);
  check_refused("convert", t + quoted(e.folder / "none" / "o.npz"), {"there is no folder"});
  CHECK(!fs::exists(e.folder / "o.npz"));
  CHECK(!fs::exists(e.folder / "o.safetensors"));
  CHECK(!fs::exists(e.folder / "o.onnx"));

  check_refused("info", t + "--tensors -1", {"--tensors", "0 or more, got '-1'"}, 2);
  check_refused("info", t + "--plot " + out("p.svg"), {"are for nets"});
  check_refused("info", net + "--plot " + net, {"expected a name ending in .svg or .dot"});
  check_refused("info", net + "--plot " + quoted(e.folder / "none" / "p.dot"), {"there is no folder"});
  for (const char* tool : {"info", "bench"}) {
    check_refused(tool, net + "--shape other=1,2", {"no input 'other'"});
    check_refused(tool, net + "--shape data=1,3 --shape data=2,3", {"two shapes for the input 'data'"});
    check_refused(tool, net + "--shape data=1,,2", {"got 'data=1,,2'"});
  }
  for (const char* option : {"--dtype ''", "--only ''", "--rename ''"}) {
    check_refused("convert", t + out("o.npz") + option, {"got an empty text"}, 2);
  }
  check_refused("info", net + "--plot ''", {"--plot: expected a value, got an empty text"}, 2);
  for (const char* seconds : {"0", "-1", "nan", "inf", "1s"}) {
    check_refused("bench", net + "--shape 1,3 --seconds " + seconds, {"--seconds: expected a number above 0"}, 2);
  }
  check_refused("bench", net + "--shape 1,3 --dtype float3", {"--dtype", "'float3'"});
  check_refused("bench", net + "--shape 1,3 --params " + quoted(e.folder / "none"), {"none"});
}

TEST_CASE("tools: kaon-convert takes the weights of a symbol.json by --params", "[interchange]") {
  const Exported e;
  const std::string net = quoted(e.folder / "net-symbol.json"), to = quoted(e.folder / "o.onnx") + " --shape 2,3";
  const std::string away = quoted(e.folder / "away.safetensors"), x = quoted(e.folder / "x.npy");
  REQUIRE(run("convert", quoted(e.folder / "net-0000.params") + " " + away).status == 0);
  fs::remove(e.folder / "net-0000.params");
  check_refused("convert", net + " " + to, {"the net has 5 inputs", "--params"});
  const Ran ran = run("convert", net + " " + to + " --params " + away);
  CAPTURE(ran.text);
  REQUIRE(ran.status == 0);
  const std::string run_it = quoted(e.folder / "o.onnx") + " --input " + x + " --output " + quoted(e.folder / "y.npy");
  REQUIRE(run("run", run_it).status == 0);
  CHECK(nd.max(nd.abs(npy::load(e.folder / "y.npy") - e.y)).asscalar<float>() < 1e-4f);
}

}  // namespace tools_test
#endif
