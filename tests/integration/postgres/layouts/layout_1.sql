SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;
CREATE SCHEMA agora_layout;
CREATE FUNCTION agora_layout.agora_metadata_tokens_v1(metadata jsonb) RETURNS text[]
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
    AS $$
DECLARE
    tokens text[] := '{}';
    key text;
    value jsonb;
    kind text;
    prefix text;
BEGIN
    IF metadata IS NULL OR jsonb_typeof(metadata) <> 'object' THEN
        RETURN tokens;
    END IF;
    FOR key, value IN SELECT * FROM jsonb_each(metadata) LOOP
        prefix := length(key) || ':' || key;
        kind := jsonb_typeof(value);
        tokens := tokens || ('=' || prefix || CASE kind
            WHEN 'string' THEN 's' || (value #>> '{}')
            WHEN 'number' THEN 'n' || trim_scale(value::numeric)
            WHEN 'boolean' THEN left(value::text, 1)
            WHEN 'null' THEN 'z'
            WHEN 'array' THEN 'a'
            ELSE 'o'
        END);
        IF kind = 'array' THEN
            tokens := tokens || ARRAY(
                SELECT '[' || prefix || CASE jsonb_typeof(member)
                    WHEN 'string' THEN 's' || (member #>> '{}')
                    WHEN 'number' THEN 'n' || trim_scale(member::numeric)
                    WHEN 'boolean' THEN left(member::text, 1)
                    WHEN 'null' THEN 'z'
                    WHEN 'array' THEN 'a'
                    ELSE 'o'
                END
                FROM jsonb_array_elements(value) AS member
            );
        END IF;
    END LOOP;
    -- No token is longer than the text of the whole, which most often is short.
    IF octet_length(metadata::text) > 255 THEN
        tokens := ARRAY(
            SELECT CASE
                WHEN octet_length(token) > 255 THEN '#' || encode(sha256(convert_to(token, 'UTF8')), 'hex')
                ELSE token
            END
            FROM unnest(tokens) AS token
        );
    END IF;
    RETURN tokens;
END
$$;
SET default_tablespace = '';
SET default_table_access_method = heap;
CREATE TABLE agora_layout.english (
    id text NOT NULL COLLATE pg_catalog."C",
    text text NOT NULL,
    source text,
    metadata jsonb,
    embedding public.vector(3) NOT NULL,
    document_id text GENERATED ALWAYS AS (regexp_replace(id, '#[0-9]+$'::text, ''::text)) STORED COLLATE pg_catalog."C",
    tokens text[] GENERATED ALWAYS AS (agora_layout.agora_metadata_tokens_v1(metadata)) STORED,
    text_search tsvector GENERATED ALWAYS AS (to_tsvector('english'::regconfig, "left"(text, 200000))) STORED
);
CREATE TABLE agora_layout.lexical (
    id text NOT NULL COLLATE pg_catalog."C",
    text text NOT NULL,
    source text,
    metadata jsonb,
    embedding public.vector(3) NOT NULL,
    document_id text GENERATED ALWAYS AS (regexp_replace(id, '#[0-9]+$'::text, ''::text)) STORED COLLATE pg_catalog."C",
    tokens text[] GENERATED ALWAYS AS (agora_layout.agora_metadata_tokens_v1(metadata)) STORED,
    text_search tsvector GENERATED ALWAYS AS (to_tsvector('simple'::regconfig, "left"(text, 200000))) STORED
);
CREATE TABLE agora_layout.plain (
    id text NOT NULL COLLATE pg_catalog."C",
    text text NOT NULL,
    source text,
    metadata jsonb,
    embedding public.vector(3) NOT NULL,
    document_id text GENERATED ALWAYS AS (regexp_replace(id, '#[0-9]+$'::text, ''::text)) STORED COLLATE pg_catalog."C",
    tokens text[] GENERATED ALWAYS AS (agora_layout.agora_metadata_tokens_v1(metadata)) STORED
);
INSERT INTO agora_layout.english VALUES ('d0#0', 'The heat pump runs quietly at night', NULL, '{"acl": ["all", "team-0"], "long": "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "year": 2020, "nested": {"a": [1.5, null, true, {"k": ""}], "z": 0}}', '[1,0,-2]', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO agora_layout.english VALUES ('d0#1', 'Wärmepumpe und Straße: größer als 100 %', 'source-1.md', '{"acl": ["all", "team-1"], "long": "x", "year": 2021, "nested": {"a": [1.5, null, true, {"k": "v"}], "z": 1}}', '[1,0.125,0]', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO agora_layout.english VALUES ('d0#2', '算法与数据结构', 'source-2.md', '{"acl": ["all", "team-2"], "long": "x", "year": 2022, "nested": {"a": [1.5, null, true, {"k": "vv"}], "z": 2}}', '[1,0.25,0]', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO agora_layout.english VALUES ('d0#3', 'invoice INV-2024-0003 for getUserName, see config.yaml', NULL, '{"acl": ["all", "team-0"], "long": "x", "year": 2023, "nested": {"a": [1.5, null, true, {"k": "vvv"}], "z": 3}}', '[1,0.375,0]', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO agora_layout.english VALUES ('d1#0', '', 'source-4.md', '{"acl": ["all", "team-1"], "long": "x", "year": 2024, "nested": {"a": [1.5, null, true, {"k": ""}], "z": 4}}', '[1,0.5,0]', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO agora_layout.english VALUES ('d1#1', 'running runners run; the quick brown fox', 'source-5.md', '{"acl": ["all", "team-2"], "long": "x", "year": 2020, "nested": {"a": [1.5, null, true, {"k": "v"}], "z": 5}}', '[1,0.625,0]', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO agora_layout.english VALUES ('d1#2', 'a "quoted" text with \ and 
 a newline', NULL, '{"acl": ["all", "team-0"], "long": "x", "year": 2021, "nested": {"a": [1.5, null, true, {"k": "vv"}], "z": 6}}', '[1,0.75,0]', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO agora_layout.english VALUES ('d1#3', 'сервер недоступен', 'source-7.md', '{"acl": ["all", "team-1"], "long": "x", "year": 2022, "nested": {"a": [1.5, null, true, {"k": "vvv"}], "z": 7}}', '[1,0.875,-2]', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO agora_layout.english VALUES ('d2#0', 'The heat pump runs quietly at night', 'source-8.md', '{"acl": ["all", "team-2"], "long": "x", "year": 2023, "nested": {"a": [1.5, null, true, {"k": ""}], "z": 8}}', '[1,1,0]', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO agora_layout.english VALUES ('d2#1', 'Wärmepumpe und Straße: größer als 100 %', NULL, '{"acl": ["all", "team-0"], "long": "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "year": 2024, "nested": {"a": [1.5, null, true, {"k": "v"}], "z": 9}}', '[1,1.125,0]', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO agora_layout.english VALUES ('d2#2', '算法与数据结构', 'source-10.md', NULL, '[1,1.25,0]', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO agora_layout.english VALUES ('d2#3', 'invoice INV-2024-0003 for getUserName, see config.yaml', 'source-11.md', '{"acl": ["all", "team-2"], "long": "x", "year": 2021, "nested": {"a": [1.5, null, true, {"k": "vvv"}], "z": 11}}', '[1,1.375,0]', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO agora_layout.english VALUES ('d4#0', 'The heat pump runs quietly at night', 'source-16.md', '{"acl": ["all", "team-1"], "long": "x", "year": 2021, "nested": {"a": [1.5, null, true, {"k": ""}], "z": 16}}', '[1,2,0]', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO agora_layout.english VALUES ('d4#1', 'Wärmepumpe und Straße: größer als 100 %', 'source-17.md', '{"acl": ["all", "team-2"], "long": "x", "year": 2022, "nested": {"a": [1.5, null, true, {"k": "v"}], "z": 17}}', '[1,2.125,0]', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO agora_layout.english VALUES ('d4#2', '算法与数据结构', NULL, '{"acl": ["all", "team-0"], "long": "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "year": 2023, "nested": {"a": [1.5, null, true, {"k": "vv"}], "z": 18}}', '[1,2.25,0]', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO agora_layout.english VALUES ('d4#3', 'invoice INV-2024-0003 for getUserName, see config.yaml', 'source-19.md', '{"acl": ["all", "team-1"], "long": "x", "year": 2024, "nested": {"a": [1.5, null, true, {"k": "vvv"}], "z": 19}}', '[1,2.375,0]', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO agora_layout.english VALUES ('d6#0', 'The heat pump runs quietly at night', NULL, '{"acl": ["all", "team-0"], "long": "x", "year": 2024, "nested": {"a": [1.5, null, true, {"k": ""}], "z": 24}}', '[1,3,0]', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO agora_layout.english VALUES ('d6#1', 'Wärmepumpe und Straße: größer als 100 %', 'source-25.md', '{"acl": ["all", "team-1"], "long": "x", "year": 2020, "nested": {"a": [1.5, null, true, {"k": "v"}], "z": 25}}', '[1,3.125,0]', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO agora_layout.english VALUES ('d6#2', '算法与数据结构', 'source-26.md', '{"acl": ["all", "team-2"], "long": "x", "year": 2021, "nested": {"a": [1.5, null, true, {"k": "vv"}], "z": 26}}', '[1,3.25,0]', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO agora_layout.english VALUES ('d6#3', 'invoice INV-2024-0003 for getUserName, see config.yaml', NULL, '{"acl": ["all", "team-0"], "long": "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "year": 2022, "nested": {"a": [1.5, null, true, {"k": "vvv"}], "z": 27}}', '[1,3.375,0]', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO agora_layout.english VALUES ('d7#0', '', 'source-28.md', '{"acl": ["all", "team-1"], "long": "x", "year": 2023, "nested": {"a": [1.5, null, true, {"k": ""}], "z": 28}}', '[1,3.5,-2]', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO agora_layout.english VALUES ('d7#1', 'running runners run; the quick brown fox', 'source-29.md', '{"acl": ["all", "team-2"], "long": "x", "year": 2024, "nested": {"a": [1.5, null, true, {"k": "v"}], "z": 29}}', '[1,3.625,0]', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO agora_layout.english VALUES ('d7#2', 'a "quoted" text with \ and 
 a newline', NULL, '{"acl": ["all", "team-0"], "long": "x", "year": 2020, "nested": {"a": [1.5, null, true, {"k": "vv"}], "z": 30}}', '[1,3.75,0]', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO agora_layout.english VALUES ('d7#3', 'сервер недоступен', 'source-31.md', '{"acl": ["all", "team-1"], "long": "x", "year": 2021, "nested": {"a": [1.5, null, true, {"k": "vvv"}], "z": 31}}', '[1,3.875,0]', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO agora_layout.english VALUES ('d8#0', 'The heat pump runs quietly at night', 'source-32.md', NULL, '[1,4,0]', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO agora_layout.english VALUES ('d8#1', 'Wärmepumpe und Straße: größer als 100 %', NULL, '{"acl": ["all", "team-0"], "long": "x", "year": 2023, "nested": {"a": [1.5, null, true, {"k": "v"}], "z": 33}}', '[1,4.125,0]', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO agora_layout.english VALUES ('d8#2', '算法与数据结构', 'source-34.md', '{"acl": ["all", "team-1"], "long": "x", "year": 2024, "nested": {"a": [1.5, null, true, {"k": "vv"}], "z": 34}}', '[1,4.25,0]', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO agora_layout.english VALUES ('d8#3', 'invoice INV-2024-0003 for getUserName, see config.yaml', 'source-35.md', '{"acl": ["all", "team-2"], "long": "x", "year": 2020, "nested": {"a": [1.5, null, true, {"k": "vvv"}], "z": 35}}', '[1,4.375,-2]', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO agora_layout.english VALUES ('d9#0', '', NULL, '{"acl": ["all", "team-0"], "long": "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "year": 2021, "nested": {"a": [1.5, null, true, {"k": ""}], "z": 36}}', '[1,4.5,0]', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO agora_layout.english VALUES ('d9#1', 'running runners run; the quick brown fox', 'source-37.md', '{"acl": ["all", "team-1"], "long": "x", "year": 2022, "nested": {"a": [1.5, null, true, {"k": "v"}], "z": 37}}', '[1,4.625,0]', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO agora_layout.english VALUES ('d9#2', 'a "quoted" text with \ and 
 a newline', 'source-38.md', '{"acl": ["all", "team-2"], "long": "x", "year": 2023, "nested": {"a": [1.5, null, true, {"k": "vv"}], "z": 38}}', '[1,4.75,0]', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO agora_layout.english VALUES ('d9#3', 'сервер недоступен', NULL, '{"acl": ["all", "team-0"], "long": "x", "year": 2024, "nested": {"a": [1.5, null, true, {"k": "vvv"}], "z": 39}}', '[1,4.875,0]', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO agora_layout.english VALUES ('d3#0', '', NULL, '{"acl": ["board"], "long": "x", "nested": {"a": [1.5, null, true, {"k": ""}], "z": 12}}', '[1,1.5,0]', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO agora_layout.english VALUES ('d3#1', 'running runners run; the quick brown fox', 'source-13.md', '{"acl": ["board"], "long": "x", "nested": {"a": [1.5, null, true, {"k": "v"}], "z": 13}}', '[1,1.625,0]', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO agora_layout.english VALUES ('d3#2', 'a "quoted" text with \ and 
 a newline', 'source-14.md', '{"acl": ["board"], "long": "x", "nested": {"a": [1.5, null, true, {"k": "vv"}], "z": 14}}', '[1,1.75,-2]', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO agora_layout.english VALUES ('d3#3', 'сервер недоступен', NULL, '{"acl": ["board"], "long": "x", "nested": {"a": [1.5, null, true, {"k": "vvv"}], "z": 15}}', '[1,1.875,0]', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO agora_layout.lexical VALUES ('d0#0', 'The heat pump runs quietly at night', NULL, '{"acl": ["all", "team-0"], "long": "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "year": 2020, "nested": {"a": [1.5, null, true, {"k": ""}], "z": 0}}', '[1,0,-2]', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO agora_layout.lexical VALUES ('d0#1', 'Wärmepumpe und Straße: größer als 100 %', 'source-1.md', '{"acl": ["all", "team-1"], "long": "x", "year": 2021, "nested": {"a": [1.5, null, true, {"k": "v"}], "z": 1}}', '[1,0.125,0]', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO agora_layout.lexical VALUES ('d0#2', '算法与数据结构', 'source-2.md', '{"acl": ["all", "team-2"], "long": "x", "year": 2022, "nested": {"a": [1.5, null, true, {"k": "vv"}], "z": 2}}', '[1,0.25,0]', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO agora_layout.lexical VALUES ('d0#3', 'invoice INV-2024-0003 for getUserName, see config.yaml', NULL, '{"acl": ["all", "team-0"], "long": "x", "year": 2023, "nested": {"a": [1.5, null, true, {"k": "vvv"}], "z": 3}}', '[1,0.375,0]', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO agora_layout.lexical VALUES ('d1#0', '', 'source-4.md', '{"acl": ["all", "team-1"], "long": "x", "year": 2024, "nested": {"a": [1.5, null, true, {"k": ""}], "z": 4}}', '[1,0.5,0]', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO agora_layout.lexical VALUES ('d1#1', 'running runners run; the quick brown fox', 'source-5.md', '{"acl": ["all", "team-2"], "long": "x", "year": 2020, "nested": {"a": [1.5, null, true, {"k": "v"}], "z": 5}}', '[1,0.625,0]', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO agora_layout.lexical VALUES ('d1#2', 'a "quoted" text with \ and 
 a newline', NULL, '{"acl": ["all", "team-0"], "long": "x", "year": 2021, "nested": {"a": [1.5, null, true, {"k": "vv"}], "z": 6}}', '[1,0.75,0]', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO agora_layout.lexical VALUES ('d1#3', 'сервер недоступен', 'source-7.md', '{"acl": ["all", "team-1"], "long": "x", "year": 2022, "nested": {"a": [1.5, null, true, {"k": "vvv"}], "z": 7}}', '[1,0.875,-2]', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO agora_layout.lexical VALUES ('d2#0', 'The heat pump runs quietly at night', 'source-8.md', '{"acl": ["all", "team-2"], "long": "x", "year": 2023, "nested": {"a": [1.5, null, true, {"k": ""}], "z": 8}}', '[1,1,0]', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO agora_layout.lexical VALUES ('d2#1', 'Wärmepumpe und Straße: größer als 100 %', NULL, '{"acl": ["all", "team-0"], "long": "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "year": 2024, "nested": {"a": [1.5, null, true, {"k": "v"}], "z": 9}}', '[1,1.125,0]', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO agora_layout.lexical VALUES ('d2#2', '算法与数据结构', 'source-10.md', NULL, '[1,1.25,0]', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO agora_layout.lexical VALUES ('d2#3', 'invoice INV-2024-0003 for getUserName, see config.yaml', 'source-11.md', '{"acl": ["all", "team-2"], "long": "x", "year": 2021, "nested": {"a": [1.5, null, true, {"k": "vvv"}], "z": 11}}', '[1,1.375,0]', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO agora_layout.lexical VALUES ('d3#0', '', NULL, '{"acl": ["board"], "long": "x", "nested": {"a": [1.5, null, true, {"k": ""}], "z": 12}}', '[1,1.5,0]', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO agora_layout.lexical VALUES ('d4#0', 'The heat pump runs quietly at night', 'source-16.md', '{"acl": ["all", "team-1"], "long": "x", "year": 2021, "nested": {"a": [1.5, null, true, {"k": ""}], "z": 16}}', '[1,2,0]', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO agora_layout.lexical VALUES ('d4#1', 'Wärmepumpe und Straße: größer als 100 %', 'source-17.md', '{"acl": ["all", "team-2"], "long": "x", "year": 2022, "nested": {"a": [1.5, null, true, {"k": "v"}], "z": 17}}', '[1,2.125,0]', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO agora_layout.lexical VALUES ('d4#2', '算法与数据结构', NULL, '{"acl": ["all", "team-0"], "long": "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "year": 2023, "nested": {"a": [1.5, null, true, {"k": "vv"}], "z": 18}}', '[1,2.25,0]', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO agora_layout.lexical VALUES ('d4#3', 'invoice INV-2024-0003 for getUserName, see config.yaml', 'source-19.md', '{"acl": ["all", "team-1"], "long": "x", "year": 2024, "nested": {"a": [1.5, null, true, {"k": "vvv"}], "z": 19}}', '[1,2.375,0]', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO agora_layout.lexical VALUES ('d6#0', 'The heat pump runs quietly at night', NULL, '{"acl": ["all", "team-0"], "long": "x", "year": 2024, "nested": {"a": [1.5, null, true, {"k": ""}], "z": 24}}', '[1,3,0]', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO agora_layout.lexical VALUES ('d6#1', 'Wärmepumpe und Straße: größer als 100 %', 'source-25.md', '{"acl": ["all", "team-1"], "long": "x", "year": 2020, "nested": {"a": [1.5, null, true, {"k": "v"}], "z": 25}}', '[1,3.125,0]', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO agora_layout.lexical VALUES ('d6#2', '算法与数据结构', 'source-26.md', '{"acl": ["all", "team-2"], "long": "x", "year": 2021, "nested": {"a": [1.5, null, true, {"k": "vv"}], "z": 26}}', '[1,3.25,0]', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO agora_layout.lexical VALUES ('d6#3', 'invoice INV-2024-0003 for getUserName, see config.yaml', NULL, '{"acl": ["all", "team-0"], "long": "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "year": 2022, "nested": {"a": [1.5, null, true, {"k": "vvv"}], "z": 27}}', '[1,3.375,0]', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO agora_layout.lexical VALUES ('d7#0', '', 'source-28.md', '{"acl": ["all", "team-1"], "long": "x", "year": 2023, "nested": {"a": [1.5, null, true, {"k": ""}], "z": 28}}', '[1,3.5,-2]', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO agora_layout.lexical VALUES ('d7#1', 'running runners run; the quick brown fox', 'source-29.md', '{"acl": ["all", "team-2"], "long": "x", "year": 2024, "nested": {"a": [1.5, null, true, {"k": "v"}], "z": 29}}', '[1,3.625,0]', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO agora_layout.lexical VALUES ('d7#2', 'a "quoted" text with \ and 
 a newline', NULL, '{"acl": ["all", "team-0"], "long": "x", "year": 2020, "nested": {"a": [1.5, null, true, {"k": "vv"}], "z": 30}}', '[1,3.75,0]', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO agora_layout.lexical VALUES ('d7#3', 'сервер недоступен', 'source-31.md', '{"acl": ["all", "team-1"], "long": "x", "year": 2021, "nested": {"a": [1.5, null, true, {"k": "vvv"}], "z": 31}}', '[1,3.875,0]', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO agora_layout.lexical VALUES ('d8#0', 'The heat pump runs quietly at night', 'source-32.md', NULL, '[1,4,0]', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO agora_layout.lexical VALUES ('d8#1', 'Wärmepumpe und Straße: größer als 100 %', NULL, '{"acl": ["all", "team-0"], "long": "x", "year": 2023, "nested": {"a": [1.5, null, true, {"k": "v"}], "z": 33}}', '[1,4.125,0]', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO agora_layout.lexical VALUES ('d8#2', '算法与数据结构', 'source-34.md', '{"acl": ["all", "team-1"], "long": "x", "year": 2024, "nested": {"a": [1.5, null, true, {"k": "vv"}], "z": 34}}', '[1,4.25,0]', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO agora_layout.lexical VALUES ('d8#3', 'invoice INV-2024-0003 for getUserName, see config.yaml', 'source-35.md', '{"acl": ["all", "team-2"], "long": "x", "year": 2020, "nested": {"a": [1.5, null, true, {"k": "vvv"}], "z": 35}}', '[1,4.375,-2]', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO agora_layout.lexical VALUES ('d9#0', '', NULL, '{"acl": ["all", "team-0"], "long": "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "year": 2021, "nested": {"a": [1.5, null, true, {"k": ""}], "z": 36}}', '[1,4.5,0]', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO agora_layout.lexical VALUES ('d9#1', 'running runners run; the quick brown fox', 'source-37.md', '{"acl": ["all", "team-1"], "long": "x", "year": 2022, "nested": {"a": [1.5, null, true, {"k": "v"}], "z": 37}}', '[1,4.625,0]', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO agora_layout.lexical VALUES ('d9#2', 'a "quoted" text with \ and 
 a newline', 'source-38.md', '{"acl": ["all", "team-2"], "long": "x", "year": 2023, "nested": {"a": [1.5, null, true, {"k": "vv"}], "z": 38}}', '[1,4.75,0]', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO agora_layout.lexical VALUES ('d9#3', 'сервер недоступен', NULL, '{"acl": ["all", "team-0"], "long": "x", "year": 2024, "nested": {"a": [1.5, null, true, {"k": "vvv"}], "z": 39}}', '[1,4.875,0]', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO agora_layout.lexical VALUES ('d3#1', 'running runners run; the quick brown fox', 'source-13.md', '{"acl": ["board"], "long": "x", "nested": {"a": [1.5, null, true, {"k": "v"}], "z": 13}}', '[1,1.625,0]', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO agora_layout.lexical VALUES ('d3#2', 'a "quoted" text with \ and 
 a newline', 'source-14.md', '{"acl": ["board"], "long": "x", "nested": {"a": [1.5, null, true, {"k": "vv"}], "z": 14}}', '[1,1.75,-2]', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO agora_layout.lexical VALUES ('d3#3', 'сервер недоступен', NULL, '{"acl": ["board"], "long": "x", "nested": {"a": [1.5, null, true, {"k": "vvv"}], "z": 15}}', '[1,1.875,0]', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO agora_layout.plain VALUES ('d0#0', 'The heat pump runs quietly at night', NULL, '{"acl": ["all", "team-0"], "long": "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "year": 2020, "nested": {"a": [1.5, null, true, {"k": ""}], "z": 0}}', '[1,0,-2]', DEFAULT, DEFAULT);
INSERT INTO agora_layout.plain VALUES ('d0#1', 'Wärmepumpe und Straße: größer als 100 %', 'source-1.md', '{"acl": ["all", "team-1"], "long": "x", "year": 2021, "nested": {"a": [1.5, null, true, {"k": "v"}], "z": 1}}', '[1,0.125,0]', DEFAULT, DEFAULT);
INSERT INTO agora_layout.plain VALUES ('d0#2', '算法与数据结构', 'source-2.md', '{"acl": ["all", "team-2"], "long": "x", "year": 2022, "nested": {"a": [1.5, null, true, {"k": "vv"}], "z": 2}}', '[1,0.25,0]', DEFAULT, DEFAULT);
INSERT INTO agora_layout.plain VALUES ('d0#3', 'invoice INV-2024-0003 for getUserName, see config.yaml', NULL, '{"acl": ["all", "team-0"], "long": "x", "year": 2023, "nested": {"a": [1.5, null, true, {"k": "vvv"}], "z": 3}}', '[1,0.375,0]', DEFAULT, DEFAULT);
INSERT INTO agora_layout.plain VALUES ('d1#0', '', 'source-4.md', '{"acl": ["all", "team-1"], "long": "x", "year": 2024, "nested": {"a": [1.5, null, true, {"k": ""}], "z": 4}}', '[1,0.5,0]', DEFAULT, DEFAULT);
INSERT INTO agora_layout.plain VALUES ('d1#1', 'running runners run; the quick brown fox', 'source-5.md', '{"acl": ["all", "team-2"], "long": "x", "year": 2020, "nested": {"a": [1.5, null, true, {"k": "v"}], "z": 5}}', '[1,0.625,0]', DEFAULT, DEFAULT);
INSERT INTO agora_layout.plain VALUES ('d1#2', 'a "quoted" text with \ and 
 a newline', NULL, '{"acl": ["all", "team-0"], "long": "x", "year": 2021, "nested": {"a": [1.5, null, true, {"k": "vv"}], "z": 6}}', '[1,0.75,0]', DEFAULT, DEFAULT);
INSERT INTO agora_layout.plain VALUES ('d1#3', 'сервер недоступен', 'source-7.md', '{"acl": ["all", "team-1"], "long": "x", "year": 2022, "nested": {"a": [1.5, null, true, {"k": "vvv"}], "z": 7}}', '[1,0.875,-2]', DEFAULT, DEFAULT);
INSERT INTO agora_layout.plain VALUES ('d2#0', 'The heat pump runs quietly at night', 'source-8.md', '{"acl": ["all", "team-2"], "long": "x", "year": 2023, "nested": {"a": [1.5, null, true, {"k": ""}], "z": 8}}', '[1,1,0]', DEFAULT, DEFAULT);
INSERT INTO agora_layout.plain VALUES ('d2#1', 'Wärmepumpe und Straße: größer als 100 %', NULL, '{"acl": ["all", "team-0"], "long": "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "year": 2024, "nested": {"a": [1.5, null, true, {"k": "v"}], "z": 9}}', '[1,1.125,0]', DEFAULT, DEFAULT);
INSERT INTO agora_layout.plain VALUES ('d2#2', '算法与数据结构', 'source-10.md', NULL, '[1,1.25,0]', DEFAULT, DEFAULT);
INSERT INTO agora_layout.plain VALUES ('d2#3', 'invoice INV-2024-0003 for getUserName, see config.yaml', 'source-11.md', '{"acl": ["all", "team-2"], "long": "x", "year": 2021, "nested": {"a": [1.5, null, true, {"k": "vvv"}], "z": 11}}', '[1,1.375,0]', DEFAULT, DEFAULT);
INSERT INTO agora_layout.plain VALUES ('d4#0', 'The heat pump runs quietly at night', 'source-16.md', '{"acl": ["all", "team-1"], "long": "x", "year": 2021, "nested": {"a": [1.5, null, true, {"k": ""}], "z": 16}}', '[1,2,0]', DEFAULT, DEFAULT);
INSERT INTO agora_layout.plain VALUES ('d4#1', 'Wärmepumpe und Straße: größer als 100 %', 'source-17.md', '{"acl": ["all", "team-2"], "long": "x", "year": 2022, "nested": {"a": [1.5, null, true, {"k": "v"}], "z": 17}}', '[1,2.125,0]', DEFAULT, DEFAULT);
INSERT INTO agora_layout.plain VALUES ('d9#1', 'running runners run; the quick brown fox', 'source-37.md', '{"acl": ["all", "team-1"], "long": "x", "year": 2022, "nested": {"a": [1.5, null, true, {"k": "v"}], "z": 37}}', '[1,4.625,0]', DEFAULT, DEFAULT);
INSERT INTO agora_layout.plain VALUES ('d4#2', '算法与数据结构', NULL, '{"acl": ["all", "team-0"], "long": "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "year": 2023, "nested": {"a": [1.5, null, true, {"k": "vv"}], "z": 18}}', '[1,2.25,0]', DEFAULT, DEFAULT);
INSERT INTO agora_layout.plain VALUES ('d4#3', 'invoice INV-2024-0003 for getUserName, see config.yaml', 'source-19.md', '{"acl": ["all", "team-1"], "long": "x", "year": 2024, "nested": {"a": [1.5, null, true, {"k": "vvv"}], "z": 19}}', '[1,2.375,0]', DEFAULT, DEFAULT);
INSERT INTO agora_layout.plain VALUES ('d6#0', 'The heat pump runs quietly at night', NULL, '{"acl": ["all", "team-0"], "long": "x", "year": 2024, "nested": {"a": [1.5, null, true, {"k": ""}], "z": 24}}', '[1,3,0]', DEFAULT, DEFAULT);
INSERT INTO agora_layout.plain VALUES ('d6#1', 'Wärmepumpe und Straße: größer als 100 %', 'source-25.md', '{"acl": ["all", "team-1"], "long": "x", "year": 2020, "nested": {"a": [1.5, null, true, {"k": "v"}], "z": 25}}', '[1,3.125,0]', DEFAULT, DEFAULT);
INSERT INTO agora_layout.plain VALUES ('d6#2', '算法与数据结构', 'source-26.md', '{"acl": ["all", "team-2"], "long": "x", "year": 2021, "nested": {"a": [1.5, null, true, {"k": "vv"}], "z": 26}}', '[1,3.25,0]', DEFAULT, DEFAULT);
INSERT INTO agora_layout.plain VALUES ('d6#3', 'invoice INV-2024-0003 for getUserName, see config.yaml', NULL, '{"acl": ["all", "team-0"], "long": "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "year": 2022, "nested": {"a": [1.5, null, true, {"k": "vvv"}], "z": 27}}', '[1,3.375,0]', DEFAULT, DEFAULT);
INSERT INTO agora_layout.plain VALUES ('d7#0', '', 'source-28.md', '{"acl": ["all", "team-1"], "long": "x", "year": 2023, "nested": {"a": [1.5, null, true, {"k": ""}], "z": 28}}', '[1,3.5,-2]', DEFAULT, DEFAULT);
INSERT INTO agora_layout.plain VALUES ('d7#1', 'running runners run; the quick brown fox', 'source-29.md', '{"acl": ["all", "team-2"], "long": "x", "year": 2024, "nested": {"a": [1.5, null, true, {"k": "v"}], "z": 29}}', '[1,3.625,0]', DEFAULT, DEFAULT);
INSERT INTO agora_layout.plain VALUES ('d7#2', 'a "quoted" text with \ and 
 a newline', NULL, '{"acl": ["all", "team-0"], "long": "x", "year": 2020, "nested": {"a": [1.5, null, true, {"k": "vv"}], "z": 30}}', '[1,3.75,0]', DEFAULT, DEFAULT);
INSERT INTO agora_layout.plain VALUES ('d7#3', 'сервер недоступен', 'source-31.md', '{"acl": ["all", "team-1"], "long": "x", "year": 2021, "nested": {"a": [1.5, null, true, {"k": "vvv"}], "z": 31}}', '[1,3.875,0]', DEFAULT, DEFAULT);
INSERT INTO agora_layout.plain VALUES ('d8#0', 'The heat pump runs quietly at night', 'source-32.md', NULL, '[1,4,0]', DEFAULT, DEFAULT);
INSERT INTO agora_layout.plain VALUES ('d8#1', 'Wärmepumpe und Straße: größer als 100 %', NULL, '{"acl": ["all", "team-0"], "long": "x", "year": 2023, "nested": {"a": [1.5, null, true, {"k": "v"}], "z": 33}}', '[1,4.125,0]', DEFAULT, DEFAULT);
INSERT INTO agora_layout.plain VALUES ('d8#2', '算法与数据结构', 'source-34.md', '{"acl": ["all", "team-1"], "long": "x", "year": 2024, "nested": {"a": [1.5, null, true, {"k": "vv"}], "z": 34}}', '[1,4.25,0]', DEFAULT, DEFAULT);
INSERT INTO agora_layout.plain VALUES ('d8#3', 'invoice INV-2024-0003 for getUserName, see config.yaml', 'source-35.md', '{"acl": ["all", "team-2"], "long": "x", "year": 2020, "nested": {"a": [1.5, null, true, {"k": "vvv"}], "z": 35}}', '[1,4.375,-2]', DEFAULT, DEFAULT);
INSERT INTO agora_layout.plain VALUES ('d9#0', '', NULL, '{"acl": ["all", "team-0"], "long": "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "year": 2021, "nested": {"a": [1.5, null, true, {"k": ""}], "z": 36}}', '[1,4.5,0]', DEFAULT, DEFAULT);
INSERT INTO agora_layout.plain VALUES ('d9#2', 'a "quoted" text with \ and 
 a newline', 'source-38.md', '{"acl": ["all", "team-2"], "long": "x", "year": 2023, "nested": {"a": [1.5, null, true, {"k": "vv"}], "z": 38}}', '[1,4.75,0]', DEFAULT, DEFAULT);
INSERT INTO agora_layout.plain VALUES ('d9#3', 'сервер недоступен', NULL, '{"acl": ["all", "team-0"], "long": "x", "year": 2024, "nested": {"a": [1.5, null, true, {"k": "vvv"}], "z": 39}}', '[1,4.875,0]', DEFAULT, DEFAULT);
INSERT INTO agora_layout.plain VALUES ('d3#0', '', NULL, '{"acl": ["board"], "long": "x", "nested": {"a": [1.5, null, true, {"k": ""}], "z": 12}}', '[1,1.5,0]', DEFAULT, DEFAULT);
INSERT INTO agora_layout.plain VALUES ('d3#1', 'running runners run; the quick brown fox', 'source-13.md', '{"acl": ["board"], "long": "x", "nested": {"a": [1.5, null, true, {"k": "v"}], "z": 13}}', '[1,1.625,0]', DEFAULT, DEFAULT);
INSERT INTO agora_layout.plain VALUES ('d3#2', 'a "quoted" text with \ and 
 a newline', 'source-14.md', '{"acl": ["board"], "long": "x", "nested": {"a": [1.5, null, true, {"k": "vv"}], "z": 14}}', '[1,1.75,-2]', DEFAULT, DEFAULT);
INSERT INTO agora_layout.plain VALUES ('d3#3', 'сервер недоступен', NULL, '{"acl": ["board"], "long": "x", "nested": {"a": [1.5, null, true, {"k": "vvv"}], "z": 15}}', '[1,1.875,0]', DEFAULT, DEFAULT);
ALTER TABLE ONLY agora_layout.english
    ADD CONSTRAINT english_pkey PRIMARY KEY (id);
ALTER TABLE ONLY agora_layout.lexical
    ADD CONSTRAINT lexical_pkey PRIMARY KEY (id);
ALTER TABLE ONLY agora_layout.plain
    ADD CONSTRAINT plain_pkey PRIMARY KEY (id);
CREATE INDEX english_document_id_idx ON agora_layout.english USING btree (document_id);
CREATE INDEX english_english_text_idx ON agora_layout.english USING gin (text_search) WITH (fastupdate=off);
CREATE INDEX english_l2_hnsw_idx ON agora_layout.english USING hnsw (embedding public.vector_l2_ops);
CREATE INDEX english_tokens_idx ON agora_layout.english USING gin (tokens) WITH (fastupdate=off);
CREATE INDEX lexical_cosine_hnsw_idx ON agora_layout.lexical USING hnsw (embedding public.vector_cosine_ops);
CREATE INDEX lexical_document_id_idx ON agora_layout.lexical USING btree (document_id);
CREATE INDEX lexical_simple_text_idx ON agora_layout.lexical USING gin (text_search) WITH (fastupdate=off);
CREATE INDEX lexical_tokens_idx ON agora_layout.lexical USING gin (tokens) WITH (fastupdate=off);
CREATE INDEX lexical_zero_idx ON agora_layout.lexical USING btree (id) WHERE (public.vector_norm(embedding) = (0)::double precision);
CREATE INDEX plain_cosine_hnsw_idx ON agora_layout.plain USING hnsw (embedding public.vector_cosine_ops);
CREATE INDEX plain_document_id_idx ON agora_layout.plain USING btree (document_id);
CREATE INDEX plain_tokens_idx ON agora_layout.plain USING gin (tokens) WITH (fastupdate=off);
CREATE INDEX plain_zero_idx ON agora_layout.plain USING btree (id) WHERE (public.vector_norm(embedding) = (0)::double precision);
