// The picture of a memory plan: read back as XML.
#include <map>
#include <set>

#include "kaon/graph/memory/svg.h"
#include "kaon/graph/passes/passes.h"
#include "kaon/graph/plan/execution_plan.h"
#include "kaon/graph/plan/parallel_regions.h"
#include "kaon/tests/graph/support.h"

namespace memory_picture_test {

using namespace kaon;
using namespace kaon::graph;
using namespace kaon::test;
using Catch::Matchers::Contains;

namespace {

struct Element {
  std::string name, text;
  std::map<std::string, std::string> attributes;
  std::vector<Element> children;

  double number(const char* attribute) const { return std::stod(attributes.at(attribute)); }
  // All elements inside with this class.
  void collect(const std::string& wanted, std::vector<const Element*>& found) const {
    const auto it = attributes.find("class");
    if (it != attributes.end() && it->second == wanted) found.push_back(this);
    for (const Element& c : children) c.collect(wanted, found);
  }
};

// Strict: what is not well-formed fails the case.
class XmlReader {
 public:
  explicit XmlReader(std::string text) : text_(std::move(text)) {}
  Element read() {
    Element root = element();
    space();
    REQUIRE(at_ == text_.size());
    return root;
  }

 private:
  void space() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  void expect(char c) {
    INFO("at " << at_ << ": " << text_.substr(at_, 40));
    REQUIRE(at_ < text_.size());
    REQUIRE(text_[at_] == c);
    ++at_;
  }
  std::string word() {
    const size_t begin = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '-')) ++at_;
    REQUIRE(at_ > begin);
    return text_.substr(begin, at_ - begin);
  }
  std::string characters(char end) {
    static const std::map<std::string, char> entities{
        {"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"apos", '\''}};
    std::string s;
    while (at_ < text_.size() && text_[at_] != end) {
      REQUIRE(static_cast<unsigned char>(text_[at_]) >= (end == '<' ? 0x0a : 0x20));
      REQUIRE(text_[at_] != '<');
      if (text_[at_] != '&') {
        s += text_[at_++];
        continue;
      }
      const size_t stop = text_.find(';', at_);
      REQUIRE(stop != std::string::npos);
      s += entities.at(text_.substr(at_ + 1, stop - at_ - 1));
      at_ = stop + 1;
    }
    return s;
  }
  Element element() {
    Element e;
    expect('<');
    e.name = word();
    for (space(); text_[at_] != '>' && text_[at_] != '/'; space()) {
      const std::string key = word();
      expect('=');
      expect('\'');
      REQUIRE(e.attributes.emplace(key, characters('\'')).second);
      expect('\'');
    }
    if (text_[at_] == '/') {
      ++at_;
      expect('>');
      return e;
    }
    expect('>');
    for (;;) {
      e.text += characters('<');
      if (text_[at_ + 1] != '/') {
        e.children.push_back(element());
        continue;
      }
      at_ += 2;
      REQUIRE(word() == e.name);
      expect('>');
      return e;
    }
  }

  std::string text_;
  size_t at_ = 0;
};

std::vector<const Element*> blocks_of(const Element& root, const char* kind = "value") {
  std::vector<const Element*> found;
  root.collect(kind, found);
  return found;
}

// Every value that owns memory in the arena has one block, at its offset and time; blocks do not overlap.
void check_picture(const Graph& g, const MemoryPlan& plan) {
  const Element root = XmlReader(plan.svg(g)).read();
  REQUIRE(root.name == "svg");
  std::set<std::vector<double>> drawn, expected;
  const auto blocks = blocks_of(root);
  for (const Element* b : blocks) {
    REQUIRE(b->children.at(0).name == "title");
    drawn.insert({b->number("x"), b->number("width"), double(plan.arena_bytes) - b->number("y") - b->number("height"),
                  b->number("height")});
  }
  for (uint32_t i = 0; i < plan.slots.size(); ++i) {
    for (uint32_t k = 0; k < plan.slots[i].size(); ++k) {
      const ValueSlot& s = plan.slots[i][k];
      if (s.place != Place::arena || !(s.root == ValueId{i, k}) || s.bytes == 0) continue;
      expected.insert({double(s.first), double(s.last - s.first + 1), double(s.offset), double(s.bytes)});
    }
  }
  CHECK(drawn == expected);
  CHECK(blocks.size() == expected.size());
  for (size_t a = 0; a < blocks.size(); ++a) {
    for (size_t b = a + 1; b < blocks.size(); ++b) {
      auto apart = [&](const char* at, const char* size) {
        const double x = blocks[a]->number(at), y = blocks[b]->number(at);
        return x + blocks[a]->number(size) <= y || y + blocks[b]->number(size) <= x;
      };
      REQUIRE((apart("x", "width") || apart("y", "height")));
    }
  }
  const auto nodes = blocks_of(root, "node");
  CHECK(nodes.size() == size_t(std::count_if(g.nodes.begin(), g.nodes.end(), [](const Node& n) { return n.op; })));
}

Graph planned(const Symbol& s, int inputs, bool backward) {
  Graph g = Graph::from_symbol(s, data_names(inputs));
  infer_graph(g, std::vector<TensorMeta>(size_t(inputs), {{4, 6}, DType::float32}));
  std::vector<bool> wanted(backward ? size_t(inputs) : 0, true);
  return passes::run(std::move(g), {.training = backward, .wanted = wanted});
}

}  // namespace

TEST_CASE("memory picture: a block for each value of the arena, at its offset and time, on 100 random programs") {
  for (uint32_t seed = 1; seed <= 100; ++seed) {
    INFO("seed " << seed);
    const Graph g = planned(random_symbol(20, seed), 2, seed % 2 == 0);
    check_picture(g, plan_memory(g));
  }
}

TEST_CASE("memory picture: names, kinds, peak, totals, branches") {
  const Symbol x = sym.var("data0");
  const Symbol program = sym.as("a<b & 'c'").softmax(x) * sym.as("second").log_softmax(x);
  Graph g = Graph::from_symbol(program, {"data0"});
  infer_graph(g, std::vector<TensorMeta>{{{256, 1024}, DType::float32}});
  g = with_parallel_regions(passes::run(std::move(g), {.training = true, .wanted = {true}}), true);
  const MemoryPlan plan = plan_memory(g);
  check_picture(g, plan);
  const std::string text = plan.svg(g);
  CHECK_THAT(text, Contains("a&lt;b &amp; &apos;c&apos;"));
  CHECK_THAT(text, Contains("peak ") && Contains("kept for the backward") && Contains("inputs "));
  const Element root = XmlReader(text).read();
  CHECK(blocks_of(root, "peak").size() == 1);
  CHECK(blocks_of(root, "beside").size() ==
        g.parallel_regions.size() + (g.parallel_regions.empty() ? 0 : 1));  // one in the legend
  CHECK(!g.parallel_regions.empty());
}

TEST_CASE("memory picture: a plan without memory, and one without nodes") {
  const Graph alone = planned(sym.relu(sym.var("data0")), 1, false);
  CHECK(plan_memory(alone).arena_bytes == 0);
  check_picture(alone, plan_memory(alone));
  const Graph nothing;
  check_picture(nothing, plan_memory(nothing));
  Graph empty = Graph::from_symbol(sym.tanh(sym.softmax(sym.var("data0"))), {"data0"});
  infer_graph(empty, std::vector<TensorMeta>{{{0, 6}, DType::float32}});
  check_picture(empty, plan_memory(empty));
}

TEST_CASE("memory picture: xml text has no special and no control characters") {
  CHECK(xml_text("a<b>&\"'\x01\n") == "a&lt;b&gt;&amp;&quot;&apos;");
}

}  // namespace memory_picture_test
