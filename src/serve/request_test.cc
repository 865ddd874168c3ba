// Parts of requests: parameters, forms, and who may ask.
#include <gtest/gtest.h>

#include <fstream>

#include "banyan/error.h"
#include "serve/access.h"
#include "serve/api_error.h"
#include "serve/embeddings.h"
#include "serve/file_store.h"
#include "serve/multipart.h"
#include "serve/parameters.h"
#include "support/temp_directory.h"

namespace banyan {
namespace {

using testing_support::TempDirectory;

TEST(Parameters, EachIsReadOrRefusedByName) {
  const Json body = ReadBody(R"({"a":1,"b":0.50,"c":null,"d":["x"],"e":true})");
  Parameters parameters(body);
  EXPECT_EQ(parameters.Integer("a", 0, 0, 5), 1);
  EXPECT_EQ(parameters.Number("b", 0.0, 0.0, 1.0), 0.5);  // kept as it is written, still a number
  EXPECT_EQ(parameters.Text("c", "none"), "none");
  EXPECT_EQ(parameters.Texts("d", 1), std::vector<std::string>{"x"});
  const auto refused = [](const auto& call) {
    try {
      call();
    } catch (const ApiError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(refused([&] { parameters.RefuseOthers(); }), "'e': this server has no such parameter");
  EXPECT_TRUE(parameters.Flag("e", false));
  parameters.RefuseOthers();
  EXPECT_EQ(refused([&] { parameters.Integer("a", 0, 2, 5); }),
            "'a': expected a whole number from 2 to 5, found 1");
  EXPECT_EQ(refused([&] { parameters.Integer("b", 0, 0, 5); }),
            "'b': expected a whole number from 0 to 5, found 0.50");
  EXPECT_EQ(refused([&] { parameters.Needed("z"); }), "'z' is missing");
  EXPECT_NE(refused([] { ReadBody("[1]"); }), "");
  EXPECT_NE(refused([] { ReadBody(std::string(100000, '[')); }), "");
}

TEST(Parameters, PropertiesKeepTheirOrder) {
  EXPECT_EQ(OrderedText(R"({"x":{"z":1,"a":2}})", {"x"}), R"({"z":1,"a":2})");
  EXPECT_EQ(OrderedText(R"({"x":{"z":1}})", {"x", "y"}), "");
}

TEST(Multipart, PartsAndWhatIsNone) {
  const std::string type = "multipart/form-data; boundary=b";
  const std::string body =
      "--b\r\nContent-Disposition: form-data; name=\"file\"; "
      "filename=\"a;\\\"b.txt\"\r\n\r\none\r\n"
      "two\r\n--b\r\ncontent-disposition: form-data; name=purpose\r\n\r\n\r\n--b--\r\n";
  const std::vector<FormPart> parts = ReadForm(type, body);
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[0].filename, "a;\"b.txt");
  EXPECT_EQ(parts[0].bytes, "one\r\ntwo");
  EXPECT_EQ(parts[1].name, "purpose");
  EXPECT_EQ(parts[1].bytes, "");
  for (size_t size = 0; size + 5 < body.size(); ++size) {
    EXPECT_THROW(ReadForm(type, std::string_view(body).substr(0, size)), ApiError) << size;
  }
  EXPECT_THROW(ReadForm("text/plain", body), ApiError);
  EXPECT_THROW(ReadForm("multipart/form-data", body), ApiError);
}

TEST(Access, KeysOriginsAndHosts) {
  const TempDirectory folder;
  const std::string file = (folder.path() / "keys").string();
  std::ofstream(file) << "# people\nanna: anna-key-0123456789\n\nno-name-key-0123456789\n";
  ServeOptions options;
  options.keys_file = file;
  options.isolate = true;
  options.allow_origins = {"https://good.example"};
  const Access access(options);
  const auto status = [&](const HttpFields& headers, std::string* tenant = nullptr) {
    HttpRequest request;
    request.headers = headers;
    const auto error = access.Check(request, false);
    if (tenant) *tenant = request.tenant;
    EXPECT_EQ(error.has_value(), request.scope == 0);
    return error ? error->status() : 200;
  };
  std::string tenant;
  EXPECT_EQ(status({{"authorization", "Bearer anna-key-0123456789"}}, &tenant), 200);
  EXPECT_EQ(tenant, "anna");
  EXPECT_EQ(status({{"authorization", "bearer no-name-key-0123456789"}}, &tenant), 200);
  EXPECT_EQ(tenant, "key-2");
  EXPECT_EQ(status({}), 401);
  EXPECT_EQ(status({{"authorization", "Bearer anna-key-012345678"}}), 401);
  EXPECT_EQ(status({{"host", "evil.example"}}), 403);
  EXPECT_EQ(status({{"host", "localhost:80"}, {"origin", "http://evil.example"}}), 403);
  const std::pair<std::string, std::string> key = {"authorization", "Bearer anna-key-0123456789"};
  EXPECT_EQ(status({{"host", "[::1]:80"}, {"origin", "http://[::1]:80"}, key}), 200);
  EXPECT_EQ(status({{"host", "127.0.0.1"}, {"origin", "https://good.example"}, key}), 200);
  std::ofstream(file) << "short\n";
  EXPECT_THROW(Access{options}, Error);
  options.keys_file.clear();
  EXPECT_THROW(Access{options}, Error);
}

TEST(Embeddings, Base64) {
  EXPECT_EQ(Base64(""), "");
  EXPECT_EQ(Base64("f"), "Zg==");
  EXPECT_EQ(Base64("fo"), "Zm8=");
  EXPECT_EQ(Base64("foobar"), "Zm9vYmFy");
}

TEST(FileStore, TenantsSeeTheirOwn) {
  const TempDirectory folder;
  FileStore store(folder.path());
  const std::string id = store.Keep("anna", "a.jsonl", "batch", "one");
  EXPECT_EQ(store.Content("anna", id), "one");
  EXPECT_THROW(store.Content("ben", id), ApiError);
  EXPECT_THROW(store.Content("anna", "../" + id), ApiError);
  EXPECT_NE(FileStore(folder.path()).Describe("anna", id).find("a.jsonl"), std::string::npos);
  store.Delete("anna", id);
  EXPECT_THROW(store.Describe("anna", id), ApiError);
}

}  // namespace
}  // namespace banyan
