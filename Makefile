# Banyan from a bare Debian 12: each target installs what is missing (tools/setup.sh), configures
# and builds. Root or sudo is needed once, for the packages.
JOBS ?= $(shell nproc)
RELEASE := build/release

PYTHON ?= python3
# Python's own settings may name another compiler; one name, and ccache knows what was compiled.
PIP = CC=$${CC:-cc} CXX=$${CXX:-c++} CMAKE_BUILD_PARALLEL_LEVEL=$(JOBS) $(1) -m pip
PYTHON_TESTS = cd python/tests && PATH=$$PWD/../../build/python/bin:$$PATH BANYAN=$$PWD/../../$(RELEASE)/banyan MAKE_TINY_MODEL=$$PWD/../../$(RELEASE)/make_tiny_model python -B -m unittest -v

.PHONY: help setup build test test-asan test-tsan test-asan-serve test-tsan-serve test-soak test-real test-serve test-browser test-python test-ray test-faults demo \
        model install deb wheel format fuzz cuda clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup:  ## install the Debian packages that are missing
	@tools/setup.sh

$(RELEASE)/build.ninja: CMakeLists.txt CMakePresets.json $(wildcard cmake/*.cmake) src/layers.txt | setup
	cmake --preset release

build: $(RELEASE)/build.ninja  ## the release binary: build/release/banyan
	cmake --build --preset release -j $(JOBS) --target banyan

test: $(RELEASE)/build.ninja  ## all tests that need no network and no GPU
	cmake --build --preset release -j $(JOBS)
	tests/run.sh

test-asan: | setup  ## the unit tests and fuzzers with ASan and UBSan
	cmake --preset dev && cmake --build --preset dev -j $(JOBS) && ctest --preset dev -j $(JOBS)

test-tsan: | setup  ## the unit tests with ThreadSanitizer
	cmake --preset tsan && cmake --build --preset tsan -j $(JOBS) && ctest --preset tsan -j $(JOBS)

test-asan-serve: | setup  ## the server's own tests and the hostile clients with ASan and UBSan; CLIENTS=2000
	cmake --preset dev && cmake --build --preset dev -j $(JOBS) --target banyan serve_test store_test documents_test
	tests/serve_sanitized.sh build/dev $(or $(CLIENTS),2000)

test-tsan-serve: | setup  ## the same with ThreadSanitizer
	cmake --preset tsan && cmake --build --preset tsan -j $(JOBS) --target banyan serve_test store_test documents_test
	tests/serve_sanitized.sh build/tsan $(or $(CLIENTS),2000)

test-soak: build  ## good and hostile clients and injected faults together for SECONDS=120; PLOT=FILE.svg draws it
	BANYAN=$(abspath $(RELEASE))/banyan python3 -B tests/serve/soak.py --seconds $(or $(SECONDS),120) $(if $(PLOT),--plot $(abspath $(PLOT)))

test-real: build  ## tests on real models, which come over the network
	tests/real.sh

test-serve: build  ## the server with the real openai client and 10 000 hostile ones; packages come over the network
	tests/serve.sh

test-browser: build  ## what people see, in Debian's Chromium; PICTURES=DIR keeps screenshots
	@tools/setup.sh chromium
	PICTURES=$(abspath $(PICTURES)) ctest --test-dir $(RELEASE) -L browser --output-on-failure

wheel: | setup  ## the Python package for this architecture: build/wheels/banyan-*.whl; PYTHON=python3.12 makes an abi3 one
	@tools/setup.sh python3-dev python3-pip python3-venv
	PYTHON=$(PYTHON) CUDA=$(CUDA) CMAKE_BUILD_PARALLEL_LEVEL=$(JOBS) tools/wheel.sh

build/python/installed: pyproject.toml python/CMakeLists.txt $(wildcard python/native/* src/*/*.cc include/banyan/*.h) | $(RELEASE)/build.ninja
	@tools/setup.sh python3-dev python3-pip python3-venv
	$(PYTHON) -m venv build/python
	$(call PIP,build/python/bin/python) install -q 'scikit-build-core>=0.10' 'nanobind>=2.4' mypy nbclient ipykernel matplotlib 'pandas>=2' pyarrow langchain-core 'ray[data]'
	$(call PIP,build/python/bin/python) install --no-build-isolation -e . --config-settings=cmake.define.BANYAN_CUDA=$(or $(CUDA),OFF)
	cmake --build --preset release -j $(JOBS) --target banyan make_tiny_model
	touch $@

test-python: build/python/installed  ## the Python package: needs the Python index
	$(PYTHON_TESTS) test_rows test_options test_adapters test_engine test_behaviour test_blocks test_embed test_elsewhere test_types test_notebook test_leaks

test-ray: build/python/installed  ## jobs on a Ray cluster whose workers and driver are killed
	$(PYTHON_TESTS) test_ray

test-faults: $(RELEASE)/build.ninja  ## jobs broken in every known way, SECONDS=600 for each kind
	cmake --preset release -D FAULT_SECONDS=$(or $(SECONDS),600)
	cmake --build --preset release -j $(JOBS) --target test_faults

demo: build  ## answers on a sample that ships with the repository
	@tools/demo.sh

model: build  ## fetch a real model (SmolLM2-135M-Instruct) into the model cache
	@tools/setup.sh python3-pip
	$(RELEASE)/banyan model get smollm2-135m-instruct
	@echo 'Try: $(RELEASE)/banyan ask -m smollm2-135m-instruct --adapter smollm2-reader --copy FILE "QUESTION?"'

install: $(RELEASE)/build.ninja  ## library, headers, CMake package and binary; PREFIX=/usr/local
	cmake --build --preset release -j $(JOBS)
	cmake --install $(RELEASE) --prefix $(or $(PREFIX),/usr/local)

deb: build  ## a Debian package of the program with its model: build/release/banyan_VERSION_ARCH.deb
	@tools/setup.sh dpkg-dev file
	cmake --preset release
	cd $(RELEASE) && cpack -G DEB

format:  ## format the sources in place
	@git ls-files '*.cc' '*.h' '*.inc' '*.cu' '*.cuh' | xargs clang-format -i

fuzz: | setup  ## libFuzzer programs of all parsers, run for SECONDS=60 each, JOBS at once
	@tools/setup.sh clang-16 libclang-rt-16-dev
	cmake --preset fuzz && cmake --build --preset fuzz -j $(JOBS) --target fuzzers
	tests/fuzz/run.py --jobs $(JOBS) --seconds $(or $(SECONDS),60)

cuda: | setup  ## release build with the CUDA backend, where nvcc is found
	cmake --preset cuda && cmake --build --preset cuda -j $(JOBS)

clean:  ## remove everything that was built
	rm -rf build
