// Tests of sha256.h, with the example values of FIPS 180-4 (NIST, "SHA256.pdf").
#include "base/sha256.h"

#include <gtest/gtest.h>

namespace dspark {
namespace {

TEST(Sha256, PublishedExamples) {
  EXPECT_EQ(to_hex(sha256("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(to_hex(sha256("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(to_hex(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST(Sha256, StreamsAndStartsAgain) {
  Sha256 hash;
  for (int i = 0; i < 1'000'000; ++i) hash.update("a");
  EXPECT_EQ(to_hex(hash.finish()), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  hash.update("abc");
  EXPECT_EQ(hash.finish(), sha256("abc"));
}

TEST(Sha256, FieldsCannotRunIntoEachOther) {
  const auto digest = [](std::string_view tag1, std::string_view value1, std::string_view tag2,
                         std::string_view value2) {
    Sha256 hash;
    hash.add_field(tag1, value1);
    hash.add_field(tag2, value2);
    return hash.finish();
  };
  EXPECT_EQ(digest("a", "b", "c", "d"), digest("a", "b", "c", "d"));
  EXPECT_NE(digest("a", "bc", "", "d"), digest("a", "b", "c", "d"));
  EXPECT_NE(digest("ab", "", "c", "d"), digest("a", "b", "c", "d"));
  Sha256 number;
  number.add_field("n", uint64_t{0x0807060504030201});
  Sha256 text;
  text.add_field("n", "\x01\x02\x03\x04\x05\x06\x07\x08");
  EXPECT_EQ(number.finish(), text.finish());
}

TEST(Sha256, Hexadecimal) {
  const auto digest = sha256("x");
  std::string upper = to_hex(digest);
  for (char& digit : upper) digit = static_cast<char>(std::toupper(digit));
  EXPECT_EQ(sha256_from_hex(to_hex(digest)), digest);
  EXPECT_EQ(sha256_from_hex(upper), digest);
  EXPECT_FALSE(sha256_from_hex(to_hex(digest).substr(1)).has_value());
  std::string not_hex = to_hex(digest);
  not_hex[0] = 'g';
  EXPECT_FALSE(sha256_from_hex(not_hex).has_value());
}

}  // namespace
}  // namespace dspark
