// A suite with controller-runtime's envtest, as it would be for kube-apiserver and etcd: nothing in it knows of Keelson.
package envtest

import (
	"context"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

var k8sClient client.Client

func TestMain(m *testing.M) {
	environment := &envtest.Environment{}
	config, err := environment.Start()
	if err != nil {
		panic(err)
	}
	if k8sClient, err = client.New(config, client.Options{}); err != nil {
		panic(err)
	}
	code := m.Run()
	if err := environment.Stop(); err != nil {
		panic(err)
	}
	os.Exit(code)
}

func TestConfigMapIsCreatedAndRead(t *testing.T) {
	ctx := context.Background()
	made := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "default"},
		Data:       map[string]string{"k": "v"},
	}
	if err := k8sClient.Create(ctx, made); err != nil {
		t.Fatal(err)
	}
	var found corev1.ConfigMap
	if err := k8sClient.Get(ctx, client.ObjectKeyFromObject(made), &found); err != nil {
		t.Fatal(err)
	}
	if found.Data["k"] != "v" || found.UID != made.UID {
		t.Fatalf("another object was read: %+v", found)
	}
	if err := k8sClient.Create(ctx, &corev1.ConfigMap{ObjectMeta: made.ObjectMeta}); err == nil {
		t.Fatal("an object was created with a resource version")
	}
}

// It needs the namespace controller: KEELSON_CONTROLLERS=namespace-controller. With kube-apiserver alone, namespaces never go.
func TestNamespaceGoes(t *testing.T) {
	if os.Getenv("KEELSON_CONTROLLERS") == "" {
		t.Skip("KEELSON_CONTROLLERS is not set: no controller ends namespaces")
	}
	ctx := context.Background()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "going"}}
	if err := k8sClient.Create(ctx, namespace); err != nil {
		t.Fatal(err)
	}
	if err := k8sClient.Delete(ctx, namespace); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		err := k8sClient.Get(ctx, client.ObjectKeyFromObject(namespace), namespace)
		if apierrors.IsNotFound(err) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the namespace is still there: %v", err)
		}
	}
}
