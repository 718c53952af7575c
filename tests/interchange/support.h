// What the cases of interchange share: the files that tests/golden/make_interchange.py wrote, and their values.
#pragma once

#include <catch2/catch.hpp>

#include <functional>
#include <string>
#include <vector>

#include "kaon/kaon.h"
#include "kaon/tests/support/files.h"

namespace kaon::test {

inline fs::path foreign_file(const std::string& name) { return data_file("interchange/" + name); }

// Element i of the script's arrays.
inline double foreign_value(int64_t i, DType dtype) {
  const auto v = double(i * 3 % 7);
  if (dtype == DType::boolean) return v != 0;
  return ops::is_unsigned(dtype) ? v : v - 3;
}

inline void check_foreign(const NDArray& array, const Shape& shape, DType dtype) {
  REQUIRE(array.shape() == shape);
  REQUIRE(array.dtype() == dtype);
  const std::vector<double> got = array.asvector<double>();
  for (size_t i = 0; i < got.size(); ++i) {
    INFO("element " << i);
    CHECK(got[i] == foreign_value(int64_t(i), dtype));
  }
}

inline NDArray foreign_array(const Shape& shape, DType dtype) {
  std::vector<double> values(size_t(shape.size()), 0.0);
  for (size_t i = 0; i < values.size(); ++i) values[i] = foreign_value(int64_t(i), dtype);
  return NDArray::from(values.data(), values.size(), shape, dtype);
}

inline NDArray find(const NamedArrays& arrays, const std::string& name) {
  for (const auto& [other, array] : arrays) {
    if (other == name) return array;
  }
  FAIL("no array is called " << name);
  return {};
}

inline bool same_bytes(const NDArray& a, const NDArray& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         nd_file::save_to_bytes({{"a", a}}) == nd_file::save_to_bytes({{"a", b}});
}

// What `read` throws, an IoError; else the case fails.
inline std::string refusal(const std::function<void()>& read) {
  try {
    read();
  } catch (const IoError& e) {
    return e.what();
  }
  FAIL("nothing was thrown");
  return {};
}

// Each prefix of the bytes, and many changed ones, is read or refused by an IoError.
inline void check_broken(const std::string& bytes, const std::function<void(std::string_view)>& read,
                         int changes = 400) {
  const auto survives = [&](std::string_view broken) {
    try {
      read(broken);
    } catch (const IoError& e) {
      CHECK_THAT(e.what(), Catch::Matchers::Contains("at byte"));
    }
  };
  for (size_t n = 0; n < bytes.size(); n += 1 + bytes.size() / 300) survives(std::string_view(bytes).substr(0, n));
  std::mt19937 random(7);
  for (int i = 0; i < changes; ++i) survives(mutate(bytes, random));
}

}  // namespace kaon::test
