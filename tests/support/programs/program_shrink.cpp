#include "kaon/tests/support/programs/program_shrink.h"

#include <algorithm>
#include <set>

#include "kaon/tests/support/programs/program_evaluate.h"

namespace kaon::test {

using namespace engine;
namespace {

template <class T>
std::vector<T> without(std::vector<T> list, size_t i) {
  list.erase(list.begin() + ptrdiff_t(i));
  return list;
}

// With every use of `from` as one of `to`.
Program replaced(Program p, Ref from, Ref to) {
  for (ProgramNode& n : p.nodes) std::replace(n.inputs.begin(), n.inputs.end(), from, to);
  std::replace(p.heads.begin(), p.heads.end(), from, to);
  return p;
}

// A value that comes from nowhere instead of node i's.
Program cut(Program p, uint32_t i, bool is_body) {
  const TensorMeta m = p.nodes[i].outputs[0];
  ProgramNode n;
  n.role = is_body || !is_floating(m.dtype) ? Role::constant : Role::parameter;
  n.seed = i;
  n.range = is_floating(m.dtype) ? Range{} : Range{0, 2, 1};
  n.outputs = {m};
  p.nodes[i] = std::move(n);
  return p;
}

size_t elements(const Program& p) {
  size_t n = 0;
  for (const ProgramNode& v : p.nodes) {
    for (const TensorMeta& m : v.outputs) n += size_t(m.shape.size()) + size_t(m.shape.ndim());
    for (const auto& body : v.bodies) n += elements(*body);
  }
  return n;
}

auto size_of(const Program& p) {
  return std::tuple(p.num_calls(), p.nodes.size(), p.heads.size(), p.phases.size() + p.rows.size() + (p.unused != 0),
                    elements(p));
}

void add_smaller_shapes(const Program& p, std::vector<Program>& all) {
  std::set<int64_t> sizes;
  for (const ProgramNode& n : p.nodes) {
    if (n.kind == Kind::variable) sizes.insert(n.outputs[0].shape.begin(), n.outputs[0].shape.end());
  }
  // Everywhere at once, attributes included: the numbers of a layer's units and of its weight belong together.
  auto with = [&](int64_t from, int64_t to, const ProgramNode* only) {
    Program q = p;
    for (size_t i = 0; i < q.nodes.size(); ++i) {
      ProgramNode& n = q.nodes[i];
      if (only && only != &p.nodes[i]) continue;
      if (n.kind == Kind::variable) {
        Shape& s = n.outputs[0].shape;
        for (int d = 0; d < s.ndim(); ++d) s[d] = s[d] == from ? to : s[d];
      } else if (n.kind == Kind::call) {
        n.attrs = Attributes(*n.def, n.attrs.get());
        n.def->write(p.nodes[i].attrs.get(), [&](std::string_view name, const std::string& text, bool) {
          if (text == std::to_string(from)) n.def->read(n.attrs.edit(), name, std::to_string(to));
        });
      }
    }
    all.push_back(std::move(q));
  };
  for (int64_t size : sizes) {
    for (int64_t to : std::set<int64_t>{1, 2, size / 2, size - 1}) {
      if (to < 1 || to >= size) continue;
      with(size, to, nullptr);
      for (const ProgramNode& n : p.nodes) {
        if (n.kind == Kind::variable) with(size, to, &n);
      }
    }
  }
}

void add_smaller_bodies(const Program& p, std::vector<Program>& all) {
  for (size_t i = 0; i < p.nodes.size(); ++i) {
    for (size_t b = 0; b < p.nodes[i].bodies.size(); ++b) {
      for (Program& body : smaller_programs(*p.nodes[i].bodies[b], true)) {
        all.push_back(p);
        all.back().nodes[i].bodies[b] = std::make_shared<const Program>(std::move(body));
      }
    }
    if (p.nodes[i].iterations > 1) {
      all.push_back(p);
      all.back().nodes[i].iterations = 1;
    }
  }
}

}  // namespace

bool retype(Program& p) {
  Engine engine({.threads = 0});
  EngineScope scope(engine);
  Program everything = p;
  everything.heads.clear();
  std::vector<NDArray> in;
  for (uint32_t i = 0; i < p.nodes.size(); ++i) {
    const ProgramNode& n = p.nodes[i];
    if (n.kind == Kind::variable && n.role != Role::constant) in.push_back(make_variable(n, 0, 0));
    for (uint32_t k = 0; k < n.outputs.size(); ++k) everything.heads.push_back({i, k});
  }
  try {
    const std::vector<NDArray> values = Evaluation<NDArray>(everything).run(in);
    for (size_t k = 0; k < values.size(); ++k) {
      values[k].wait_to_read();
      const Ref r = everything.heads[k];
      p.nodes[r.node].outputs[r.output] = {values[k].shape(), values[k].dtype()};
    }
  } catch (const std::exception&) {
    return false;
  }
  return true;
}

std::vector<Program> smaller_programs(const Program& p, bool is_body) {
  std::vector<Program> all;
  if (!is_body) {
    for (Ref head : p.heads) {
      if (p.heads.size() == 1) break;
      all.push_back(p);
      all.back().heads = {head};
    }
    for (size_t k = 0; k < p.heads.size() && p.heads.size() > 1; ++k) {
      all.push_back(p);
      all.back().heads = without(p.heads, k);
    }
    if (p.unused != 0) {
      all.push_back(p);
      all.back().unused = 0;
    }
    for (size_t k = 0; k < p.phases.size() && p.phases.size() > 1; ++k) {
      all.push_back(p);
      all.back().phases = without(p.phases, k);
    }
    for (size_t k = 0; k < p.rows.size() && p.rows.size() > 1; ++k) {
      all.push_back(p);
      all.back().rows = without(p.rows, k);
    }
  }
  for (uint32_t i = 0; i < p.nodes.size(); ++i) {  // early ones first: what they need goes too
    if (p.nodes[i].kind == Kind::variable || p.nodes[i].outputs.size() != 1) continue;
    all.push_back(cut(p, i, is_body));
  }
  for (uint32_t i = uint32_t(p.nodes.size()); i-- > 0;) {
    const ProgramNode& n = p.nodes[i];
    if (n.kind == Kind::variable) continue;
    std::vector<Ref> sources = n.inputs;
    sources.erase(std::unique(sources.begin(), sources.end()), sources.end());
    for (uint32_t k = 0; k < n.outputs.size(); ++k) {
      for (Ref r : sources) all.push_back(replaced(p, {i, k}, r));
    }
  }
  add_smaller_bodies(p, all);
  if (!is_body) add_smaller_shapes(p, all);
  for (Program& q : all) q = pruned(q, is_body);
  return all;
}

Program shrunk(Program program, FunctionRef<bool(const Program&)> fails, int tries) {
  for (bool found = true; found;) {
    found = false;
    for (Program& next : smaller_programs(program)) {
      if (!retype(next) || !(size_of(next) < size_of(program))) continue;
      if (tries-- == 0) return program;
      if (!fails(next)) continue;
      program = std::move(next);
      found = true;
      break;
    }
  }
  return program;
}

}  // namespace kaon::test
