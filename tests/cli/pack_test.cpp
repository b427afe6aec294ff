// SPDX-License-Identifier: Apache-2.0
// Packed files, and files of Loom, wherever an .entity file is taken.

#include "tests/cli/dtypes.hpp"

namespace weft::cli_test::pack_test {
namespace {

const std::string kGoldenV1 = source_path("tests/data/formats/golden_v1.entity");

TEST(Pack, LosesNothingAndUnpacksToTheSameFile) {
  Folder folder;
  save_digits(folder / "m.entity");
  const std::string packed = folder / "p.entity", plain = folder / "u.entity", again = folder / "a.entity";
  const Outcome made = weft({"pack", folder / "m.entity", "-o", packed, "--json"});
  ASSERT_EQ(made.exit, 0) << made.told();
  EXPECT_EQ(made.last()["packed"], true);
  EXPECT_EQ(made.last()["file_bytes"], std::filesystem::file_size(packed));
  EXPECT_EQ(made.last()["file_bytes_before"], std::filesystem::file_size(folder / "m.entity"));
  EXPECT_LT(std::filesystem::file_size(packed), std::filesystem::file_size(folder / "m.entity"));
  ASSERT_EQ(weft({"pack", packed, "-o", plain, "--plain"}).exit, 0);
  EXPECT_EQ(read_file(plain), read_file(folder / "m.entity"));
  ASSERT_EQ(weft({"pack", plain, "-o", again}).exit, 0);
  EXPECT_EQ(read_file(again), read_file(packed));
  // Taken by every verb as it is.
  EXPECT_EQ(weft({"hash", packed}).out, weft({"hash", folder / "m.entity"}).out);
  EXPECT_EQ(weft({"inspect", packed, "--json"}).last()["packed"], true);
  EXPECT_EQ(weft({"inspect", plain, "--json"}).last()["packed"], false);
  const Outcome ran = weft({"run", packed, "--json", "--max-samples", "40"});
  EXPECT_EQ(ran.exit, 0) << ran.told();
  EXPECT_EQ(ran.last()["state_hash"], weft({"run", plain, "--json", "--max-samples", "40"}).last()["state_hash"]);
  EXPECT_EQ(weft({"morph", packed, "--dtype", "int4", "-o", folder / "i.entity"}).exit, 0);
}

TEST(Pack, RefusesWhatHasNoWeightsAndItsOwnFile) {
  Folder folder;
  save_digits(folder / "m.entity");
  const Outcome network = weft({"pack", kDigits, "-o", folder / "x.entity"});
  EXPECT_EQ(network.exit, 2) << network.told();
  EXPECT_NE(network.err.find("a network without weights"), std::string::npos) << network.err;
  EXPECT_EQ(weft({"pack", folder / "m.entity", "-o", folder / "m.entity"}).exit, 2);
  EXPECT_EQ(weft({"pack", folder / "m.entity"}).exit, 2);
  EXPECT_FALSE(std::filesystem::exists(folder / "x.entity"));
}

TEST(Pack, NamesADamagedFrame) {
  Folder folder;
  save_digits(folder / "m.entity");
  ASSERT_EQ(weft({"pack", folder / "m.entity", "-o", folder / "p.entity"}).exit, 0);
  std::string bytes = read_file(folder / "p.entity");
  bytes[bytes.size() - 200] = static_cast<char>(bytes[bytes.size() - 200] ^ 1);
  write_file(folder / "p.entity", bytes);
  const Outcome hashed = weft({"hash", folder / "p.entity"});
  EXPECT_EQ(hashed.exit, 3) << hashed.told();
  EXPECT_NE(hashed.err.find("p.entity: blob '"), std::string::npos) << hashed.err;
}

TEST(OriginalFiles, AreTakenWhereverAnEntityFileIs) {
  Folder folder;
  const Outcome hashed = weft({"hash", kGoldenV1});
  ASSERT_EQ(hashed.exit, 0) << hashed.told();
  EXPECT_EQ(hashed.err,
            "weft: note: " + kGoldenV1 +
                ": network.layers[0]: 6 weights of int4 are kept as float32, which holds them exactly; int4 "
                "here would round them (weft morph --dtype int4)\n");
  const Json seen = weft({"inspect", kGoldenV1, "--json"}).last();
  EXPECT_EQ(seen["kind"], "entity v1");
  EXPECT_EQ(seen["notes"].size(), 1u);
  EXPECT_EQ(seen["layers"][0]["type"], "dense");
  EXPECT_EQ(seen["layers"][1]["type"], "rms_norm");
  EXPECT_EQ(seen["inputs"]["in"], Json({3}));
  // Once ours, always the same model.
  ASSERT_EQ(weft({"pack", kGoldenV1, "-o", folder / "two.entity", "--plain"}).exit, 0);
  const Outcome ours = weft({"hash", folder / "two.entity"});
  EXPECT_EQ(ours.out, hashed.out);
  EXPECT_EQ(ours.err, "");
  ASSERT_EQ(weft({"morph", kGoldenV1, "--dtype", "float16", "-o", folder / "half.entity"}).exit, 0);
  EXPECT_EQ(layer(folder / "half.entity", 0)["dtype"], "float16");
}

TEST(OriginalFiles, RunOnDataThatIsNamed) {
  Folder folder;
  std::string csv;
  for (int i = 0; i < 40; ++i)
    csv += std::to_string(i % 5) + "," + std::to_string(i % 3) + "," + std::to_string(i % 7) + "," +
           std::to_string(i % 2) + "\n";
  write_file(folder / "d.csv", csv);
  const Outcome without = weft({"run", kGoldenV1, "--json"});
  EXPECT_EQ(without.exit, 3) << without.told();
  EXPECT_NE(without.err.find("name the data with --data"), std::string::npos) << without.err;
  const Outcome ran = weft({"run", kGoldenV1, "--data", folder / "d.csv", "--json", "--save", folder / "m.entity"});
  ASSERT_EQ(ran.exit, 0) << ran.told();
  EXPECT_GT(ran.last()["samples"], 0);
  EXPECT_EQ(weft({"hash", folder / "m.entity"}).out, ran.last()["state_hash"].get<std::string>() + "\n");
  const Outcome on = weft({"run", folder / "m.entity", "--json"});
  EXPECT_EQ(on.exit, 0) << "the saved file knows its data: " << on.told();
}

TEST(OriginalFiles, NameThePathOfWhatIsNotKnown) {
  Folder folder;
  std::string bytes = read_file(kGoldenV1);
  bytes.replace(bytes.find("RMSNorm"), 7, "RMSNerm");
  write_file(folder / "x.entity", bytes);
  const Outcome hashed = weft({"hash", folder / "x.entity"});
  EXPECT_EQ(hashed.exit, 3) << hashed.told();
  EXPECT_NE(hashed.err.find("x.entity: network.layers[1].type: no layer type 'RMSNERM' is known"), std::string::npos)
      << hashed.err;
}

}  // namespace
}  // namespace weft::cli_test::pack_test
