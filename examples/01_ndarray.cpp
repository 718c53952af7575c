// Arrays: making them, computing with them, reading them.
// Prints a matrix, the result of broadcasting, sums and a product; what writing through a row does; how long pushing 20
// products took beside the products themselves; the message for shapes that do not fit; and a value read back from a
// file.
#include <kaon/kaon.h>

using namespace kaon;

int main() {
  // `nd` has every operator. Numbers become float32 unless options say otherwise.
  NDArray a = nd.array({{1, 2, 3}, {4, 5, 6}});
  NDArray b = nd.arange(3);
  fmt::print("a =\n{}\n\n", a);
  fmt::print("a * 2 + b =\n{}\n\n", a * 2 + b);  // b is broadcast over the rows
  fmt::print("sum of each column =\n{}\n\n", nd.sum(a, {.axis = {0}}));
  fmt::print("a times its transpose =\n{}\n\n", nd.dot(a, a, {.transpose_b = true}));
  fmt::print("a > 2 as int32 =\n{}\n\n", (a > 2).astype(DType::int32));

  // An NDArray is a handle: a copy is the same array, and a row shares its memory.
  NDArray row = a[1];
  row += 10;
  a.slice_assign({0, 0}, {1, 2}, 7);
  fmt::print("after row += 10 and slice_assign, a =\n{}\n\n", a);
  // a[0] = b;  // does not compile: it would change nothing. a[0].assign(b) writes.

  // Every call pushes work and returns. Reading a value is what waits.
  const auto now = [] { return std::chrono::steady_clock::now(); };
  const auto milliseconds = [](auto begin, auto end) {
    return std::chrono::duration<double, std::milli>(end - begin).count();
  };
  NDArray m = nd.random_normal({512, 512}, {.scale = 0.04});
  m.wait_to_read();
  const auto begin = now();
  NDArray product = m;
  for (int i = 0; i < 20; ++i) product = nd.dot(product, m);
  const auto pushed = now();
  const float norm = nd.norm(product).asscalar<float>();
  fmt::print("20 products of 512x512: pushed in {:.3f} ms, there after {:.1f} ms, norm {:.3f}\n\n",
             milliseconds(begin, pushed), milliseconds(begin, now()), norm);

  // What does not fit is refused at the call.
  try {
    nd.dot(a, b.reshape({1, 3}));
  } catch (const ShapeError& e) {
    fmt::print("ShapeError: {}\n\n", e.what());
  }

  // Files are MXNet's.
  nd_file::save("arrays.nd", {{"a", a}, {"b", b}});
  for (const auto& [name, array] : nd_file::load("arrays.nd"))
    fmt::print("read {}: shape {}\n", name, array.shape().str());
}
